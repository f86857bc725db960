"""Held-out families, C and C++: never in a training task, never demonstrated."""

from __future__ import annotations

from mimo.domains.cyber.generated.plant import Plant, Words, family, one_verb


@family("use-after-scope", "stack-use-after-scope", split="heldout")
def _use_after_scope(w: Words) -> Plant:
    mark = w.pick("+", "#", "!")
    return one_verb(
        w,
        """
void $f(const char *text)
{
    int $fallback = $value;
    int *$p = &$fallback;
    @guard
    if (text[0] == '$mark') {
        int $inner = atoi(text + 1);
        $p = &$inner;
    }
    printf("%d\\n", *$p);
}
""",
        f=w.name("show_setting pick_value choose_size"),
        fallback=w.name("fallback usual preset"),
        inner=w.name("given parsed special"),
        p=w.name("chosen result answer"),
        value=w.number(1, 60),
        mark=mark,
        verbs="setting value size",
        function="f",
        trigger=f"{mark}{w.number(1, 9)}",
        benign=str(w.number(1, 9)),
        prose="A pointer keeps the address of a variable whose block has ended.",
    )


@family("bad-free", "bad-free", split="heldout")
def _bad_free(w: Words) -> Plant:
    mark = w.pick("*", "-", "#")
    return one_verb(
        w,
        """
void $f(const char *text)
{
    char *$p;
    @guard
    $p = (char *)malloc(strlen(text) + 1);
    strcpy($p, text);
    while (*$p == '$mark')
        $p++;
    printf("%s\\n", $p);
    free($p);
}
""",
        f=w.name("trim strip_marks clean_text"),
        p=w.name("own text_copy cut"),
        mark=mark,
        verbs="trim strip clean",
        function="f",
        trigger=f"{mark}{w.letters(2)}",
        benign=w.letters(3),
        prose="The pointer that is freed has been moved since it was allocated.",
    )


@family("negative-size", "negative-size-param", split="heldout")
def _negative_size(w: Words) -> Plant:
    head = w.number(3, 9)
    return one_verb(
        w,
        """
void $f(const char *text)
{
    char $p[64] = {0};
    int $rest = (int)strlen(text) - $head;
    @guard
    if ($rest > 63)
        return;
    memcpy($p, text, $rest);
    printf("%s\\n", $p);
}
""",
        f=w.name("take_body skip_head read_packet"),
        p=w.name("body packet content"),
        rest=w.name("rest remaining left"),
        head=head,
        verbs="packet body message",
        function="f",
        trigger=w.letters(2),
        benign=w.letters(head + 3),
        prose="A fixed length is taken off the length of a text before that many bytes are copied.",
    )


@family("stale-reference", "heap-use-after-free", split="heldout", language="c++")
def _stale_reference(w: Words) -> Plant:
    return one_verb(
        w,
        """
void $f(const char *text)
{
    std::vector<int> $t(1, $value);
    int &$first = $t[0];
    @guard
    for (; *text; text++)
        $t.push_back(*text);
    std::printf("%d of %d\\n", $first, (int)$t.size());
}
""",
        f=w.name("collect gather append_all"),
        t=w.name("values queue marks"),
        first=w.name("first head front"),
        value=w.number(1, 80),
        verbs="collect gather queue",
        function="f",
        trigger=w.letters(2),
        benign="",
        prose="A reference into a vector is used after the vector has grown.",
    )


@family("mismatched-delete", "alloc-dealloc-mismatch", split="heldout", language="c++")
def _mismatched_delete(w: Words) -> Plant:
    return one_verb(
        w,
        """
void $f(const char *text)
{
    int $count = std::atoi(text);
    @guard
    if ($count < 1 || $count > 99)
        return;
    int *$p = $count > 1 ? new int[$count] : new int;
    $p[0] = $count;
    std::printf("%d\\n", $p[0]);
    delete $p;
}
""",
        f=w.name("reserve book take_places"),
        count=w.name("count seats_wanted places"),
        p=w.name("row space taken"),
        verbs="reserve book take",
        function="f",
        trigger=str(w.number(2, 9)),
        benign="1",
        prose="What was allocated as an array is deleted as a single object.",
    )


FAMILIES = (_use_after_scope, _bad_free, _negative_size, _stale_reference, _mismatched_delete)
