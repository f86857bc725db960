"""C++ families: containers and objects."""

from __future__ import annotations

from mimo.domains.cyber.generated.plant import Plant, Words, family, one_verb


@family("vector-index", "heap-buffer-overflow", language="c++")
def _vector_index(w: Words) -> Plant:
    size = w.number(3, 8)
    return one_verb(
        w,
        """
void $f(const char *text)
{
    std::vector<int> $t($size, $value);
    int $at = std::atoi(text);
    @guard
    if ($at < 0)
        return;
    std::printf("%d\\n", $t[$at]);
}
""",
        f=w.name("show_item pick_card read_slot"),
        t=w.name("items cards slots"),
        at=w.name("index number chosen"),
        size=size,
        value=w.number(1, 50),
        verbs="item card slot",
        function="f",
        trigger=str(size + w.number(0, 2)),
        benign=str(w.number(0, size - 1)),
        prose="An entry of a vector is read at a place that is only checked to be not negative.",
    )


@family("deleted-object", "heap-use-after-free", language="c++")
def _deleted_object(w: Words) -> Plant:
    drop, show = w.rng.choice(("ds", "xp", "kr"))
    kind, number = w.name("Player Guest Ticket"), w.name("points age price")
    h = w.name("get value current")
    return one_verb(
        w,
        """
struct $kind {
    int $number = $value;
    int $h() const { return $number; }
};

void $f(const char *text)
{
    $kind *$p = new $kind;
    bool alive = true;
    @guard
    for (; *text; text++) {
        if (*text == '$drop' && alive) {
            delete $p;
            alive = false;
        }
        if (*text == '$show')
            std::printf("%d\\n", $p->$h());
    }
    if (alive)
        delete $p;
}
""",
        f=w.name("visit run_round serve"),
        kind=kind,
        number=number,
        h=h,
        p=w.name("one it present"),
        value=w.number(1, 70),
        drop=drop,
        show=show,
        verbs="round visit serve",
        function=f"{kind}::{h}",
        trigger=f"{drop}{show}",
        benign=f"{show}{drop}",
        prose="One-letter orders can ask an object that was deleted.",
    )


@family("null-object", "null-pointer", language="c++")
def _null_object(w: Words) -> Plant:
    key = w.pick("gold", "iron", "salt")
    return one_verb(
        w,
        """
struct $kind {
    std::string key = "$key";
    int $number = $value;
};

static $kind *$h($kind *from, const std::string &key)
{
    return from->key == key ? from : nullptr;
}

void $f(const char *text)
{
    $kind $p;
    @guard
    $kind *found = $h(&$p, text);
    found->$number++;
    std::printf("%d\\n", $p.$number);
}
""",
        f=w.name("count_up buy add_one"),
        h=w.name("match choose lookup"),
        kind=w.name("Metal Stock Good"),
        number=w.name("amount pieces sold"),
        p=w.name("shelf first store"),
        key=key,
        value=w.number(1, 40),
        verbs="buy count add",
        function="f",
        trigger=w.letters(1),
        benign=key,
        prose="A count is raised in an object that may not have been found.",
    )


FAMILIES = (_vector_index, _deleted_object, _null_object)
