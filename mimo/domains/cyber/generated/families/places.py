"""C families about the stack and globals: buffers that are too small, indexes that are not checked."""

from __future__ import annotations

from mimo.domains.cyber.generated.plant import Plant, Words, family, one_verb


@family("stack-write", "stack-buffer-overflow")
def _stack_write(w: Words) -> Plant:
    size = w.number(4, 8)
    p = w.name("line word field")
    copy = w.pick(
        f"    strcpy({p}, text);\n",
        f'    sprintf({p}, "%s", text);\n',
        f"    char *at = {p};\n    while (*text)\n        *at++ = *text++;\n    *at = 0;\n",
    )
    return one_verb(
        w,
        """
void $f(const char *text)
{
    char $p[$size];
    @guard
$copy    printf("%s\\n", $p);
}
""",
        f=w.name("echo_word print_field greet"),
        p=p,
        size=size,
        copy=copy,
        verbs="word field greet",
        function="f",
        trigger=w.letters(size + 4),
        benign=w.letters(2),
        prose="A text is copied into a local array, however long it is.",
    )


@family("global-write", "global-buffer-overflow")
def _global_write(w: Words) -> Plant:
    size = w.number(4, 9)
    return one_verb(
        w,
        """
static int $t[$size];

static void $h(int *cells, int at, int value)
{
    cells[at] = value;
}

void $f(const char *text)
{
    int $at = 0, value = 0;
    @guard
    if (sscanf(text, "%d %d", &$at, &value) != 2 || $at < 0)
        return;
    $h($t, $at, value);
    printf("%d\\n", $t[0]);
}
""",
        f=w.name("set_cell mark_seat write_field"),
        h=w.name("put_value assign place_number"),
        t=w.name("cells seats counters"),
        at=w.name("place where index"),
        size=size,
        verbs="cell seat set",
        function="h",
        trigger=f"{size + w.number(0, 2)} {w.number(1, 9)}",
        benign=f"{w.number(0, size - 1)} {w.number(1, 9)}",
        prose="A global table is written at a place that is only checked to be not negative.",
    )


@family("array-index", "out-of-bounds-index")
def _array_index(w: Words) -> Plant:
    size = w.number(3, 9)
    below = w.rng.random() < 0.5
    t, at = w.name("prices scores levels"), w.name("number which pos")
    check = f"{at} >= {size}" if below else f"{at} < 0 || {at} > {size}"
    return one_verb(
        w,
        """
void $f(const char *text)
{
    int $t[$size] = {$values};
    int $at = atoi(text);
    @guard
    if ($check)
        return;
    printf("%d\\n", $t[$at]);
}
""",
        f=w.name("show_price get_score ask_level"),
        t=t,
        at=at,
        check=check,
        size=size,
        values=", ".join(str(w.number(1, 60)) for _ in range(size)),
        verbs="price score level",
        function="f",
        trigger=str(-w.number(1, 4)) if below else str(size),
        benign=str(w.number(0, size - 1)),
        prose="An entry of a local array is read at a place whose check forgets one end.",
    )


@family("null-dereference", "null-pointer")
def _null_dereference(w: Words) -> Plant:
    keys = w.rng.sample(["red", "blue", "green", "north", "south", "east", "one", "two", "ten"], 2)
    return one_verb(
        w,
        """
struct $kind {
    const char *key;
    int $number;
};

static struct $kind $t[] = {{"$first", $a}, {"$second", $b}};

static struct $kind *$h(const char *key)
{
    for (int i = 0; i < 2; i++)
        if (strcmp($t[i].key, key) == 0)
            return &$t[i];
    return NULL;
}

void $f(const char *text)
{
    @guard
    printf("%d\\n", $h(text)->$number);
}
""",
        f=w.name("look_up print_entry tell"),
        h=w.name("find search entry_of"),
        kind=w.name("pair row record"),
        number=w.name("size weight worth"),
        t=w.name("table known rows"),
        first=keys[0],
        second=keys[1],
        a=w.number(1, 50),
        b=w.number(51, 99),
        verbs="ask tell find",
        function="f",
        trigger=w.letters(1),
        benign=keys[0],
        prose="What a search gives back is used without asking whether something was found.",
    )


@family("deep-recursion", "stack-overflow")
def _deep_recursion(w: Words) -> Plant:
    mark = w.pick("(", "[", "+", ">")
    return one_verb(
        w,
        """
static int $h(const char *text)
{
    volatile char $scratch[$size];
    $scratch[0] = *text;
    if ($scratch[0] == '$mark')
        return 1 + $h(text + 1);
    return 0;
}

void $f(const char *text)
{
    @guard
    printf("%d\\n", $h(text));
}
""",
        f=w.name("count_depth measure nest"),
        h=w.name("depth level_of inner"),
        scratch=w.name("scratch room local"),
        mark=mark,
        size=w.number(10, 15) * 100000,
        verbs="depth nest measure",
        function="h",
        trigger=mark * w.number(12, 16),
        benign=mark * 2,
        prose="A function with a large local array calls itself once for every opening sign.",
    )


FAMILIES = (_stack_write, _global_write, _array_index, _null_dereference, _deep_recursion)
