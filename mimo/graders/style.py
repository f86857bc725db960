"""Where a change departs from the file's own way of writing: quotes, spaces, indentation, length, ends."""

from __future__ import annotations

import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from mimo.graders.difference import FileDifference
from mimo.graders.syntax import Sighting, parsed

_MIN_SHARE = 0.8
_SPACED = {"==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "//", "%", "+=", "-=", "*=", "and", "or"}
_LONGEST = 88
"""Lines up to this length are fine in any file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Marks:
    """Per line: the quotes of its strings and whether its binary operators have spaces around."""

    quotes: tuple[tuple[int, str], ...]
    spaced: tuple[tuple[int, bool], ...]


def departures(change: FileDifference) -> list[Sighting]:
    """What the added lines do otherwise than the file did; nothing for new files and for other languages."""
    if not change.path.endswith(".py") or not change.before or change.deleted:
        return []
    added = set(change.added)
    found = [*_lines(change, added)]
    before, after = _marks(change.before), _marks(change.after)
    if before is not None and after is not None:
        found += _quotes(before, after, added)
        found += _spaces(before, after, added)
    return found


def _lines(change: FileDifference, added: set[int]) -> Iterator[Sighting]:
    old, new = change.before.split("\n"), change.after.split("\n")
    longest = max(_LONGEST, *(len(line) for line in old))
    tabs = any(line.startswith("\t") for line in old)
    unit = _indent_unit(old)
    for number in sorted(added):
        line = new[number - 1]
        indent = line[: len(line) - len(line.lstrip())]
        if len(line) > longest:
            yield Sighting("style", "longer line than any before", number)
        if line != line.rstrip():
            yield Sighting("style", "space at the end of the line", number)
        if line.strip() and ("\t" in indent) != tabs and indent:
            yield Sighting("style", "tabs" if "\t" in indent else "spaces where the file has tabs", number)
        elif (
            unit
            and line.strip()
            and len(indent) % unit
            and not line.lstrip().startswith(("#", ")", "]", "}"))
        ):
            yield Sighting("style", f"indentation is no multiple of {unit}", number)
        if _is_code_comment(line):
            yield Sighting("leftover", "commented-out code", number)
    if change.before.endswith("\n") and change.after and not change.after.endswith("\n"):
        yield Sighting("style", "no newline at the end", len(change.after.split("\n")))


def _indent_unit(lines: list[str]) -> int:
    """4 or 2 where every indentation of the file is a multiple of it, else 0 (no rule)."""
    widths = {len(line) - len(line.lstrip(" ")) for line in lines if line.strip()} - {0}
    return next((unit for unit in (4, 2) if widths and all(width % unit == 0 for width in widths)), 0)


def _is_code_comment(line: str) -> bool:
    text = line.strip()
    if not text.startswith("#") or len(text) > 200:
        return False
    code = text.lstrip("# ")
    if not re.search(r"[=(]|^(return|import|raise|del)\b", code):
        return False
    return parsed(code) is not None and not re.fullmatch(r"[\w ,.'-]+", code)


def _marks(source: str) -> _Marks | None:
    quotes: list[tuple[int, str]] = []
    spaced: list[tuple[int, bool]] = []
    previous: tokenize.TokenInfo | None = None
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.STRING and (quote := _quote(token.string)):
                quotes.append((token.start[0], quote))
            if previous is not None and token.type == tokenize.OP and _is_binary(token, previous):
                before = token.start[1] > previous.end[1] or token.start[0] != previous.end[0]
                after = token.line[token.end[1] : token.end[1] + 1] in (" ", "\n", "\\", "")
                spaced.append((token.start[0], before and after))
            previous = token
    except (tokenize.TokenError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return _Marks(quotes=tuple(quotes), spaced=tuple(spaced))


def _quote(text: str) -> str | None:
    """The quote of a string that could have had either one."""
    body = text.lstrip("rRbBuUfF")
    if body.startswith(('"""', "'''")) or len(body) < 2:
        return None
    other = "'" if body[0] == '"' else '"'
    return None if other in body else body[0]


def _is_binary(token: tokenize.TokenInfo, previous: tokenize.TokenInfo) -> bool:
    value = previous.type in (tokenize.NAME, tokenize.NUMBER, tokenize.STRING) or previous.string in ")]}"
    words = ("return", "in", "not", "and", "or", "if", "else", "lambda", "print", "yield")
    return token.string in _SPACED and value and previous.string not in words


def _quotes(before: _Marks, after: _Marks, added: set[int]) -> Iterator[Sighting]:
    counts = Counter(quote for _, quote in before.quotes)
    usual, number = counts.most_common(1)[0] if counts else ("", 0)
    if number < 2 or number / counts.total() < _MIN_SHARE:
        return
    for line, quote in after.quotes:
        if line in added and quote != usual:
            yield Sighting("style", f"{quote} where the file uses {usual}", line)


def _spaces(before: _Marks, after: _Marks, added: set[int]) -> Iterator[Sighting]:
    if not before.spaced or not all(spaced for _, spaced in before.spaced):
        return
    for line, spaced in after.spaced:
        if line in added and not spaced:
            yield Sighting("style", "an operator without spaces around it", line)
