"""How a program reads its input: bare lines, lines of commands, or binary records; and the inputs to match.

All code here is C that is C++ as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import Template
from typing import Protocol

from mimo.domains.cyber.generated.plant import Step, Verb, Words

_READ = """
static char *read_input(const char *path, size_t *size)
{
    static char empty[1];
    FILE *file = fopen(path, "rb");
    char *data = (char *)malloc(65537);
    if (!file || !data)
        return empty;
    *size = fread(data, 1, 65536, file);
    data[*size] = 0;
    fclose(file);
    return data;
}
"""


class Carrier(Protocol):
    """One way to bring commands into a program."""

    def main(self, verbs: Sequence[Verb]) -> str:
        """The code of `read_input` and `main`."""
        ...

    def encode(self, steps: Sequence[Step]) -> bytes:
        """The input that carries out the steps in order."""
        ...

    def prose(self) -> str:
        """The format in a sentence, for the instruction."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class BareLine:
    """The first line of the input is the text of the only command."""

    def main(self, verbs: Sequence[Verb]) -> str:
        """A main that calls the command once."""
        return _READ.lstrip("\n") + Template("""
int main(int argc, char **argv)
{
    size_t size = 0;
    char *text = argc > 1 ? read_input(argv[1], &size) : NULL;
    if (!text)
        return 1;
    text[strcspn(text, "\\n")] = 0;
    if (*text)
        $f(text);
    return 0;
}
""").substitute(f=verbs[0].function)

    def encode(self, steps: Sequence[Step]) -> bytes:
        """The text of the only step."""
        return f"{steps[0].text}\n".encode()

    def prose(self) -> str:
        """One line."""
        return "It reads one line."


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandLines:
    """Every line is a command's word, a space, and its text."""

    def main(self, verbs: Sequence[Verb]) -> str:
        """A main that looks each line's word up in turn."""
        branches = "".join(
            f'    {word} (strcmp(line, "{verb.word}") == 0)\n        {verb.function}(text);\n'
            for word, verb in zip(["if", *["else if"] * len(verbs)], verbs, strict=False)
        )
        return _READ.lstrip("\n") + Template("""
static void run_line(char *line)
{
    static char empty[1];
    char *text = strchr(line, ' ');
    if (text)
        *text++ = 0;
    else
        text = empty;
$branches    else if (*line)
        printf("unknown: %s\\n", line);
}

int main(int argc, char **argv)
{
    size_t size = 0;
    char *line = argc > 1 ? read_input(argv[1], &size) : NULL;
    while (line && *line) {
        char *next = strchr(line, '\\n');
        if (next)
            *next++ = 0;
        run_line(line);
        line = next;
    }
    return 0;
}
""").substitute(branches=branches)

    def encode(self, steps: Sequence[Step]) -> bytes:
        """One line a step."""
        return "".join(f"{step.word} {step.text}".rstrip(" ") + "\n" for step in steps).encode()

    def prose(self) -> str:
        """Lines."""
        return "It reads lines: a command's word, a space, its text."


@dataclass(frozen=True, kw_only=True, slots=True)
class Records:
    """A magic word, then records: kind, length, that many bytes of text, a checksum byte."""

    magic: str
    start: int
    mixes: str
    """How a byte enters the checksum: `+` or `^`."""
    kinds: dict[str, str]
    """Command word to the letter of its records."""

    @classmethod
    def drawn(cls, w: Words, verbs: Sequence[Verb]) -> Records:
        """A format of its own for every program."""
        letters = w.rng.sample("ABCDEFGHJKLMNPQRSTUVWXYZ", len(verbs))
        return cls(
            magic="".join(w.rng.choice("ABCDEFGHKLMNPQRSTUVWXYZ23456789") for _ in range(w.number(2, 4))),
            start=w.number(1, 200),
            mixes=w.pick("+", "^"),
            kinds={verb.word: letter for verb, letter in zip(verbs, letters, strict=True)},
        )

    def main(self, verbs: Sequence[Verb]) -> str:
        """A main that checks every record before its command runs."""
        branches = "".join(
            f"    case '{self.kinds[verb.word]}':\n        {verb.function}(text);\n        return;\n"
            for verb in verbs
        )
        return _READ.lstrip("\n") + Template("""
static void run_record(char kind, const char *text)
{
    switch (kind) {
$branches    default:
        printf("unknown kind\\n");
    }
}

int main(int argc, char **argv)
{
    static char text[256];
    size_t size = 0, at = $long;
    char *input = argc > 1 ? read_input(argv[1], &size) : NULL;
    if (!input || size < $long || memcmp(input, "$magic", $long) != 0) {
        printf("bad magic\\n");
        return 1;
    }
    while (at + 3 <= size) {
        size_t length = (unsigned char)input[at + 1];
        unsigned sum = $start;
        if (at + 3 + length > size)
            break;
        for (size_t i = 0; i < length; i++)
            sum = (sum $mixes (unsigned char)input[at + 2 + i]) & 255u;
        if (sum != (unsigned char)input[at + 2 + length]) {
            printf("bad checksum\\n");
            return 1;
        }
        memcpy(text, input + at + 2, length);
        text[length] = 0;
        run_record(input[at], text);
        at += 3 + length;
    }
    return 0;
}
""").substitute(branches=branches, long=len(self.magic), magic=self.magic, start=self.start, mixes=self.mixes)

    def encode(self, steps: Sequence[Step]) -> bytes:
        """The magic and one record a step."""
        return self.magic.encode() + b"".join(self._record(step) for step in steps)

    def _record(self, step: Step) -> bytes:
        text, total = step.text.encode(), self.start
        for byte in text:
            total = (total + byte) & 255 if self.mixes == "+" else (total ^ byte) & 255
        return self.kinds[step.word].encode() + bytes([len(text)]) + text + bytes([total])

    def prose(self) -> str:
        """Records."""
        return "It reads a magic word, then records: kind, length, text, checksum byte; see main."
