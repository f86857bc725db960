"""C families about memory from malloc: too small, read too far, used or freed after its end, never filled."""

from __future__ import annotations

from mimo.domains.cyber.generated.plant import Plant, Words, family, one_verb


@family("heap-write", "heap-buffer-overflow")
def _heap_write(w: Words) -> Plant:
    size = w.number(4, 8)
    p = w.name("slot label copy")
    copy = w.pick(
        f"    strcpy({p}, text);\n",
        f"    memcpy({p}, text, strlen(text) + 1);\n",
        f"    size_t i = 0;\n    do {{\n        {p}[i] = text[i];\n    }} while (text[i++]);\n",
    )
    return one_verb(
        w,
        """
void $f(const char *text)
{
    char *$p;
    @guard
    $p = (char *)malloc($size);
$copy    printf("%s\\n", $p);
    free($p);
}
""",
        f=w.name("store_name keep_label put_title"),
        p=p,
        size=size,
        copy=copy,
        verbs="name label title",
        function="f",
        trigger=w.letters(size + 4),
        benign=w.letters(2),
        prose="A text is copied into a heap buffer of fixed size, however long it is.",
    )


@family("heap-read", "heap-buffer-overflow")
def _heap_read(w: Words) -> Plant:
    body = w.letters(w.number(2, 3))
    mark = w.pick(":", "/", "=")
    return one_verb(
        w,
        """
void $f(const char *text)
{
    const char *$body = strchr(text, '$mark');
    int $count = atoi(text);
    int total = 0;
    @guard
    if (!$body)
        return;
    char *$p = (char *)malloc(strlen($body));
    memcpy($p, $body + 1, strlen($body));
    for (int i = 0; i < $count; i++)
        total += $p[i];
    printf("%d\\n", total);
    free($p);
}
""",
        f=w.name("sum_bytes add_payload check_block"),
        body=w.name("rest payload tail"),
        count=w.name("count length many"),
        p=w.name("bytes block data"),
        mark=mark,
        verbs="sum block check",
        function="f",
        trigger=f"{len(body) + w.number(4, 6)}{mark}{body}",
        benign=f"{len(body)}{mark}{body}",
        prose="The length that a text declares is believed when its payload, copied to the heap, is read.",
    )


def _letters(w: Words) -> tuple[str, str, str]:
    first, second, third = w.rng.choice(("nds", "afu", "oce", "mkr"))
    return first, second, third


@family("use-after-free", "heap-use-after-free")
def _use_after_free(w: Words) -> Plant:
    make, drop, show = _letters(w)
    return one_verb(
        w,
        """
void $f(const char *text)
{
    int *$p = NULL;
    int live = 0;
    @guard
    for (; *text; text++) {
        if (*text == '$make' && !live) {
            $p = (int *)malloc(sizeof *$p);
            *$p = $value;
            live = 1;
        }
        if (*text == '$drop' && live) {
            free($p);
            live = 0;
        }
        if (*text == '$show' && $p)
            printf("%d\\n", *$p);
    }
    if (live)
        free($p);
}
""",
        f=w.name("run_session play_steps do_orders"),
        p=w.name("item entry node"),
        make=make,
        drop=drop,
        show=show,
        value=w.number(2, 99),
        verbs="steps orders play",
        function="f",
        trigger=f"{make}{drop}{show}",
        benign=f"{make}{show}{drop}",
        prose="In a list of one-letter orders, what was freed can still be shown.",
    )


@family("double-free", "double-free")
def _double_free(w: Words) -> Plant:
    make, drop, _ = _letters(w)
    return one_verb(
        w,
        """
struct $kind {
    char *$p;
    int open;
};

void $f(const char *text)
{
    struct $kind it = {NULL, 0};
    @guard
    for (; *text; text++) {
        if (*text == '$make' && !it.open) {
            it.$p = (char *)malloc($size);
            it.open = 1;
        }
        if (*text == '$drop' && it.$p) {
            free(it.$p);
            it.open = 0;
        }
    }
    printf("%d\\n", it.open);
}
""",
        f=w.name("use_channel drive_port run_handle"),
        kind=w.name("channel port handle"),
        p=w.name("memory buffer area"),
        make=make,
        drop=drop,
        size=w.number(8, 40),
        verbs="channel port handle",
        function="f",
        trigger=f"{make}{drop}{drop}",
        benign=f"{make}{drop}{make}",
        prose="One-letter orders open and close a channel; closing does not forget its memory.",
    )


@family("uninitialised-flag", "invalid-bool-load")
def _uninitialised_flag(w: Words) -> Plant:
    yes, no = w.rng.choice(("yn", "tf", "ju"))
    return one_verb(
        w,
        """
struct $kind {
    int $number;
    bool $flag;
};

void $f(const char *text)
{
    struct $kind *$p;
    @guard
    $p = (struct $kind *)malloc(sizeof *$p);
    $p->$number = $value;
    if (text[0] == '$yes')
        $p->$flag = true;
    if (text[0] == '$no')
        $p->$flag = false;
    printf("%d %s\\n", $p->$number, $p->$flag ? "on" : "off");
    free($p);
}
""",
        f=w.name("set_switch read_option note_choice"),
        kind=w.name("option choice setting"),
        number=w.name("id rank place"),
        flag=w.name("active wanted enabled"),
        p=w.name("made fresh one"),
        value=w.number(1, 90),
        yes=yes,
        no=no,
        verbs="switch option choice",
        function="f",
        trigger=w.pick("x", "q", "z"),
        benign=yes,
        prose="A flag in new memory is set for two answers only, and read after any.",
    )


FAMILIES = (_heap_write, _heap_read, _use_after_free, _double_free, _uninitialised_flag)
