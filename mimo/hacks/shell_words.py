"""Shell text to simple commands, with quotes, variables, escapes and braces resolved; nothing is ever run."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass, field

_OPERATORS = ("&&", "||", "|&", ";;", ";", "|", "&", "\n", "(", ")")
_REDIRECT = re.compile(r"\d*(<<<|<<-?|<>|>>|>\||<|>)(&\d*-?)?")
_NAME = re.compile(r"[A-Za-z_]\w*|[@*#?$!0-9-]")
_BRACED = re.compile(r"\$\{([A-Za-z_]\w*|[@*#0-9])(:?[-+=?][^}]*|[#%/^,:][^}]*)?\}")
_KEYWORDS = frozenset(
    {"if", "then", "else", "elif", "fi", "do", "done", "while", "until", "{", "}", "!", "time", "coproc"}
)
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.S)
_MOST_CHARS = 200_000


@dataclass(slots=True)
class Command:
    """A simple command: its words, the text of a here-document or here-string, files it reads and writes."""

    words: list[str] = field(default_factory=list)
    stdin: str | None = None
    reads: list[str] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    piped: bool = False
    """Its input is the output of the command before it."""


@dataclass(slots=True)
class Variables:
    """What the text assigned so far; `substitute` gives the output of a nested command, if it can be told."""

    values: dict[str, str] = field(default_factory=dict)
    substitute: Callable[[str], str | None] = lambda _text: None


def parse(text: str, variables: Variables) -> list[Command]:
    """The simple commands of the text, in order; assignments change `variables`."""
    return _Reader(text[:_MOST_CHARS], variables).commands()


class _Reader:
    """One pass over the text."""

    def __init__(self, text: str, variables: Variables) -> None:
        self.text = text
        self.at = 0
        self.variables = variables
        self.done: list[Command] = []
        self.command = Command()
        self.waiting: list[tuple[Command, str, bool]] = []

    def commands(self) -> list[Command]:
        while self.at < len(self.text):
            self._step()
        self._end(piped=False)
        return self.done

    def _step(self) -> None:
        char = self.text[self.at]
        if char in " \t\r" or self.text.startswith("\\\n", self.at):
            self.at += 2 if char == "\\" else 1
        elif char == "#":
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end
        elif redirect := _REDIRECT.match(self.text, self.at):
            self._redirect(redirect)
        elif operator := next((o for o in _OPERATORS if self.text.startswith(o, self.at)), None):
            self.at += len(operator)
            self._end(piped=operator in ("|", "|&"))
            if operator == "\n":
                self._here_documents()
        else:
            self.command.words += self._word()

    def _end(self, *, piped: bool) -> None:
        """Close the command being read."""
        while self.command.words and self.command.words[0] in _KEYWORDS:
            self.command.words.pop(0)
        self._assign()
        if self.command.words or self.command.stdin is not None:
            self.done.append(self.command)
        self.command = Command(piped=piped)

    def _assign(self) -> None:
        words = self.command.words
        prefix = words[1:] if words[:1] in (["export"], ["declare"], ["local"], ["readonly"]) else words
        while prefix and (match := _ASSIGNED.fullmatch(prefix[0])):
            self.variables.values[match[1]] = match[2]
            prefix = prefix[1:]
        self.command.words = prefix

    def _redirect(self, match: re.Match[str]) -> None:
        self.at = match.end()
        kind = match[1]
        if match[2]:
            return
        if self.text.startswith("(", self.at):  # <(command)
            inner = self._balanced()
            self.command.reads.append(self.variables.substitute(inner) or "")
            return
        while self.text[self.at : self.at + 1] in (" ", "\t"):
            self.at += 1
        if kind.startswith("<<") and kind != "<<<":
            quoted = self.text[self.at : self.at + 1] in ("'", '"', "\\")
            self.waiting.append((self.command, "".join(self._word()), quoted))
            return
        target = " ".join(self._word())
        if kind == "<<<":
            self.command.stdin = target + "\n"
        else:
            (self.command.reads if kind.startswith("<") else self.command.writes).append(target)

    def _here_documents(self) -> None:
        for command, end, _quoted in self.waiting:
            lines: list[str] = []
            while self.at < len(self.text):
                stop = self.text.find("\n", self.at)
                line = self.text[self.at :] if stop < 0 else self.text[self.at : stop]
                self.at = len(self.text) if stop < 0 else stop + 1
                if line.lstrip("\t") == end:
                    break
                lines.append(line)
            command.stdin = "\n".join(lines) + "\n"
        self.waiting = []

    def _word(self) -> list[str]:
        """The word at the cursor; several when an expansion splits it."""
        pieces: list[tuple[str, bool]] = []
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in " \t\r\n;|&()<>":
                break
            before = self.at
            pieces.append(self._piece(char))
            if self.at == before:
                self.at += 1
        return _split(pieces)

    def _piece(self, char: str) -> tuple[str, bool]:
        """One part of a word and whether blanks in it split the word."""
        if char == "\\":
            self.at += 2
            return (
                "" if self.text[self.at - 1 : self.at] == "\n" else self.text[self.at - 1 : self.at]
            ), False
        if char == "'":
            return self._until_quote(), False
        if char == '"':
            return self._double_quoted(), False
        if self.text.startswith("$'", self.at):
            self.at += 1
            return _ansi_c(self._until_quote(escapes=True)), False
        if char in "$`":
            return self._expansion(), True
        end = self.at
        while end < len(self.text) and self.text[end] not in " \t\r\n;|&()<>\\'\"$`":
            end += 1
        piece, self.at = self.text[self.at : end], end
        return piece, False

    def _until_quote(self, *, escapes: bool = False) -> str:
        end = self.at + 1
        while end < len(self.text) and self.text[end] != "'":
            end += 2 if escapes and self.text[end] == "\\" else 1
        piece, self.at = self.text[self.at + 1 : end], min(end + 1, len(self.text))
        return piece

    def _double_quoted(self) -> str:
        self.at += 1
        out: list[str] = []
        while self.at < len(self.text) and self.text[self.at] != '"':
            char = self.text[self.at]
            if char == "\\" and self.text[self.at + 1 : self.at + 2] in ('"', "\\", "$", "`", "\n"):
                out.append(self.text[self.at + 1].replace("\n", ""))
                self.at += 2
            elif char in "$`":
                out.append(self._expansion())
            else:
                out.append(char)
                self.at += 1
        self.at += 1
        return "".join(out)

    def _expansion(self) -> str:
        """The value at a `$` or a backquote; what cannot be told is empty."""
        text, at = self.text, self.at
        if text[at] == "`":
            end = text.find("`", at + 1)
            self.at = len(text) if end < 0 else end + 1
            return (self.variables.substitute(text[at + 1 : self.at - 1]) or "").rstrip("\n")
        if text.startswith("$((", at):
            self.at += 1
            self._balanced()
            return "0"
        if text.startswith("$(", at):
            self.at += 1
            return (self.variables.substitute(self._balanced()) or "").rstrip("\n")
        if braced := _BRACED.match(text, at):
            self.at = braced.end()
            default = (braced[2] or "").lstrip(":")
            value = self.variables.values.get(braced[1], "")
            return " " if braced[1] == "IFS" else value or (default[1:] if default[:1] in ("-", "=") else "")
        name = _NAME.match(text, at + 1)
        self.at = name.end() if name else at + 1
        if name is None:
            return "$"
        return " " if name[0] == "IFS" else self.variables.values.get(name[0], "")

    def _balanced(self) -> str:
        """The text between the parenthesis at the cursor and its partner."""
        start, depth = self.at + 1, 0
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "'":
                self._until_quote()
                continue
            depth += (char == "(") - (char == ")")
            self.at += 1
            if depth == 0:
                break
        return self.text[start : self.at - 1]


def _split(pieces: list[tuple[str, bool]]) -> list[str]:
    words = [""]
    for text, splits in pieces:
        if not splits or not re.search(r"\s", text):
            words[-1] += text
            continue
        parts = re.split(r"\s+", text)
        words[-1] += parts[0]
        words += parts[1:]
    words = [word for word in words if word] or [""]
    plain = all(not splits for _, splits in pieces)
    return [inner for word in words for inner in (_braces(word) if plain else [word])]


def _braces(word: str) -> list[str]:
    """`{git,log,--all}` as three words."""
    if word.startswith("{") and word.endswith("}") and "," in word:
        return word[1:-1].split(",")
    return [word]


def _ansi_c(text: str) -> str:
    try:
        return codecs.decode(text.encode("latin-1", "backslashreplace"), "unicode_escape")
    except UnicodeDecodeError:
        return text


def unescape(text: str) -> str:
    """What `printf` or `echo -e` makes of backslashes."""
    octal = re.sub(r"\\0?([0-7]{1,3})", lambda m: chr(int(m[1], 8) & 255), text)
    return _ansi_c(octal)
