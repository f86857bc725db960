"""What stands around a planted bug from level 2 on: a gate before it, and commands that have no bug."""

from __future__ import annotations

from dataclasses import dataclass
from string import Template

from mimo.domains.cyber.generated.plant import Step, Verb, Words


@dataclass(frozen=True, kw_only=True, slots=True)
class Gate:
    """State that another command must set before the planted code runs; `check` replaces the guard line."""

    code: str
    check: str
    verb: Verb
    open_steps: tuple[Step, ...]


def drawn_gate(w: Words) -> Gate:
    """A number to be set, a word to be given, or a command to be called some times."""
    kind = w.pick("number", "word", "count")
    function, state = w.name("set_mode choose_state prepare"), w.name("mode state phase")
    verb = Verb(word=w.name("mode state prepare ready"), function=function)
    if kind == "number":
        key = w.number(2, 60)
        body, check, texts = f"    {state} = atoi(text);\n", f"{state} != {key}", [str(key)]
        declared = f"static int {state};\n"
    elif kind == "word":
        word = w.pick("on", "deep", "raw", "full")
        body = f'    snprintf({state}, sizeof {state}, "%s", text);\n'
        check, texts, declared = f'strcmp({state}, "{word}") != 0', [word], f"static char {state}[16];\n"
    else:
        times = w.number(2, 3)
        body, check, texts = f"    if (*text)\n        {state}++;\n", f"{state} != {times}", ["x"] * times
        declared = f"static int {state};\n"
    code = f"{declared}\nvoid {function}(const char *text)\n{{\n{body}}}\n"
    steps = tuple(Step(word=verb.word, text=text) for text in texts)
    return Gate(code=code, check=f"    if ({check})\n        return;\n", verb=verb, open_steps=steps)


@dataclass(frozen=True, kw_only=True, slots=True)
class Neighbour:
    """A command without a bug."""

    code: str
    verb: Verb
    step: Step


_NEIGHBOURS = (
    (
        "repeat say print_text",
        "say print out",
        """
void $f(const char *text)
{
    printf("%s\\n", text);
}
""",
        "hello",
    ),
    (
        "count_vowels vowels open_sounds",
        "vowels sounds",
        """
void $f(const char *text)
{
    int $n = 0;
    for (; *text; text++)
        $n += strchr("aeiou", *text) != NULL;
    printf("%d\\n", $n);
}
""",
        "banana",
    ),
    (
        "remember keep_short hold",
        "keep hold remember",
        """
void $f(const char *text)
{
    static char $n[16];
    snprintf($n, sizeof $n, "%s", text);
    printf("%s\\n", $n);
}
""",
        "a long text that is cut",
    ),
    (
        "nth_month month_name calendar",
        "month calendar",
        """
void $f(const char *text)
{
    static const char *const $n[] = {"jan", "feb", "mar", "apr"};
    int at = atoi(text);
    if (at < 0 || at >= 4)
        return;
    printf("%s\\n", $n[at]);
}
""",
        "2",
    ),
    (
        "divide_safely ratio quotient",
        "ratio quotient",
        """
void $f(const char *text)
{
    int up = 0, $n = 0;
    if (sscanf(text, "%d %d", &up, &$n) != 2 || $n <= 0)
        return;
    printf("%d\\n", up / $n);
}
""",
        "8 2",
    ),
)


def drawn_neighbours(w: Words, count: int) -> list[Neighbour]:
    """Some commands without a bug, with names of their own."""
    made = []
    for functions, words, code, text in w.rng.sample(_NEIGHBOURS, count):
        function = w.name(functions)
        verb = Verb(word=w.name(words), function=function)
        body = Template(code.lstrip("\n")).substitute(f=function, n=w.name("result kept number_of table_of"))
        made.append(Neighbour(code=body, verb=verb, step=Step(word=verb.word, text=text)))
    return made
