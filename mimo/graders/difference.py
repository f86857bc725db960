"""How one file differs from the snapshot, by lines, under limits that hostile text cannot exceed."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass
from difflib import SequenceMatcher

from mimo.graders.ground import MAX_FILE_BYTES
from mimo.graders.syntax import parsed

_MOST_MATCHED = 1000
"""More differing lines than this are counted as a multiset: matching them takes quadratic time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FileDifference:
    """Lines are numbered from 1 in the new file. `readable` is False for no UTF-8 and for too much of it."""

    path: str
    before: str
    after: str
    added: tuple[int, ...]
    removed: int
    cosmetic: int
    readable: bool
    deleted: bool

    @property
    def changed(self) -> int:
        """Added plus removed lines."""
        return len(self.added) + self.removed


def file_difference(path: str, before: bytes | None, after: bytes | None) -> FileDifference:
    """The difference between two contents; None stands for no file."""
    old, old_fine = _text(before)
    new, new_fine = _text(after)
    old_lines, new_lines = _lines(old), _lines(new)
    added, gone = _changed(old_lines, new_lines)
    cosmetic = sum(_is_layout(new_lines[number - 1]) for number in added) + sum(map(_is_layout, gone))
    if path.endswith(".py") and _same_program(old, new):
        cosmetic = len(added) + len(gone)
    return FileDifference(
        path=path,
        before=old,
        after=new,
        added=tuple(added),
        removed=len(gone),
        cosmetic=cosmetic,
        readable=old_fine and new_fine,
        deleted=after is None,
    )


def _text(data: bytes | None) -> tuple[str, bool]:
    if data is None:
        return "", True
    try:
        return data[:MAX_FILE_BYTES].decode(), len(data) <= MAX_FILE_BYTES
    except UnicodeDecodeError:
        return data[:MAX_FILE_BYTES].decode("utf-8", "replace"), False


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def _changed(old: list[str], new: list[str]) -> tuple[list[int], list[str]]:
    """Numbers of the new lines that were added, and the old lines that are gone."""
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    if len(old) + len(new) > _MOST_MATCHED:
        return _as_multisets(old, new, start)
    added: list[int] = []
    gone: list[str] = []
    for kind, a, b, c, d in SequenceMatcher(None, old, new).get_opcodes():
        if kind != "equal":
            gone += old[a:b]
            added += range(start + c + 1, start + d + 1)
    return added, gone


def _as_multisets(old: list[str], new: list[str], start: int) -> tuple[list[int], list[str]]:
    left = Counter(old)
    added = []
    for number, line in enumerate(new, start + 1):
        if left[line] > 0:
            left[line] -= 1
        else:
            added.append(number)
    return added, list(left.elements())


def _is_layout(line: str) -> bool:
    text = line.strip()
    return not text or text.startswith("#")


def _same_program(old: str, new: str) -> bool:
    first, second = parsed(old), parsed(new)
    if first is None or second is None:
        return False
    try:
        return ast.dump(first) == ast.dump(second)
    except (RecursionError, MemoryError):
        return False
