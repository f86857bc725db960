"""Where a value came from, and what is wrong with it: `file:line:col: key: what`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from mimo.errors import RecipeError

_USER = r"(?:\$\{[^}]*\}|\$(?!\{)|[^/@\s:$])*"
_PASSWORD = re.compile(rf"(://{_USER}:)(?!\$\{{env:\w+\}}@)[^/@\s]+(@)")


def hide_passwords(text: str) -> str:
    """`text` with the password of every URL in it shown as `***`."""
    return _PASSWORD.sub(r"\1***\2", text)


def holds_password(text: str) -> bool:
    """Whether `text` holds a URL with a password that is no `${env:NAME}` reference."""
    return _PASSWORD.search(text) is not None


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a key was written: a file with line and column (from 1), or a `--set` (then both are 0)."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a recipe; `key` is dotted, empty when it is about the file as a whole."""

    origin: Origin
    key: str
    what: str

    def __str__(self) -> str:
        return f"{self.origin}: {self.key}: {self.what}" if self.key else f"{self.origin}: {self.what}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)` for the nearest known word, or nothing."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def refuse(problems: Iterable[Problem], *, hint: str | None = None) -> RecipeError:
    """The error that lists every problem, one a line, in the order of the files."""
    ordered = sorted(dict.fromkeys(problems), key=lambda p: (p.origin.file, p.origin.line, p.origin.column))
    lines = [hide_passwords(str(problem)) for problem in ordered]
    if len(lines) == 1:
        return RecipeError(lines[0], hint=hint)
    return RecipeError("\n  ".join([f"{len(lines)} problems in the recipe", *lines]), hint=hint)
