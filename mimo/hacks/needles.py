"""Needles: what only somebody who saw the reference solution or the hidden tests can know, and where it
shows.

Words of 12 characters or more, runs of 5 tokens and whole added lines of the secret files that the base tree
does not hold. A match is a count; the needle's text is never written anywhere.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

_TOKEN = re.compile(rb"\w+|[^\w\s]")
_WORD = re.compile(rb"\w{12,}")
_Kind = Literal["reference", "hidden"]
GRAM = 5
_MIN_LINE_TOKENS = 4
_MOST = 600
_ENOUGH_JOINS = 0.3
SMALL_FILE = 24
"""Secret files below this size are no evidence as a whole (an empty `__init__.py` is everywhere)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Secrets:
    """What must not be in an environment: path to content of the reference's files (None: deleted) and of the
    hidden tests and other private files; `ids` are strings that name the task."""

    reference: Mapping[str, bytes | None] = field(default_factory=dict)
    hidden: Mapping[str, bytes] = field(default_factory=dict)
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Match:
    """How much of the needles some bytes hold; `whole` says which kind of secret file they are, if one."""

    words: int = 0
    phrases: int = 0
    joins: int = 0
    hidden_joins: int = 0
    whole: _Kind | Literal[""] = ""

    @property
    def any(self) -> bool:
        """Whether there is something at all."""
        return bool(self.words or self.phrases or self.joins or self.hidden_joins or self.whole)


@dataclass(frozen=True, kw_only=True, slots=True)
class Needles:
    """`words` and `phrases` (inside one line) each tell alone; `joins` (across lines) only in numbers,
    those of the
    reference and of the hidden files counted apart.

    `reference_words` and `reference_phrases` are those of the reference alone: what an audit compares with.
    """

    words: frozenset[bytes] = frozenset()
    phrases: frozenset[bytes] = frozenset()
    joins: frozenset[bytes] = frozenset()
    hidden_joins: frozenset[bytes] = frozenset()
    whole: Mapping[str, _Kind] = field(default_factory=dict)
    sizes: frozenset[int] = frozenset()
    reference_words: frozenset[bytes] = frozenset()
    reference_phrases: frozenset[bytes] = frozenset()
    ids: tuple[bytes, ...] = ()

    def match(self, data: bytes) -> Match:
        """The needles in `data`, which is text or anything else."""
        whole: _Kind | Literal[""] = (
            self.whole.get(hashlib.sha256(data).hexdigest(), "") if len(data) in self.sizes else ""
        )
        words = len(self.words.intersection(_WORD.findall(data))) if self.words else 0
        if not self.phrases and not self.joins and not self.hidden_joins:
            return Match(words=words, whole=whole)
        text = _spaced(data)
        return Match(
            words=words,
            phrases=sum(phrase in text for phrase in self.phrases),
            joins=sum(join in text for join in self.joins),
            hidden_joins=sum(join in text for join in self.hidden_joins),
            whole=whole,
        )

    def match_strings(self, data: bytes) -> Match:
        """The words in a binary whose strings are not set apart (bytecode, libraries)."""
        return Match(words=sum(word in data for word in self.words))

    def tells(self, match: Match) -> bool:
        """Whether a match in a place that should hold nothing of the solution is a leak."""
        return bool(match.whole or match.words or match.phrases) or self.many_joins(match)

    def many_joins(self, match: Match) -> bool:
        """Whether enough runs across lines are there to be no chance."""
        return _many(match.joins, len(self.joins)) or _many(match.hidden_joins, len(self.hidden_joins))

    def fills(self, match: Match) -> bool:
        """The stricter question, for old history: is most of the solution there?"""
        most = 0.5 * len(self.phrases)
        return bool(match.whole) or match.words >= 2 or (match.phrases >= 2 and match.phrases >= most)


def build_needles(secrets: Secrets, base: Iterable[bytes]) -> Needles:
    """The needles of the secrets against the base tree's files."""
    base_words: set[bytes] = set()
    base_grams: set[bytes] = set()
    base_lines: set[bytes] = set()
    for data in base:
        base_words.update(_WORD.findall(data))
        base_grams.update(_grams(_TOKEN.findall(data)))
        base_lines.update(line for line, _ in _lines(data))
    reference = [data for data in secrets.reference.values() if data]
    hidden = list(secrets.hidden.values())
    known = (base_words, base_grams, base_lines)
    told = _of(reference, known)
    all_of = _of([*reference, *hidden], known)
    ids = tuple(text.encode() for text in secrets.ids if len(text) >= 6)
    whole = {
        **_digests(hidden, "hidden"),
        **_digests(reference, "reference"),
    }
    return Needles(
        words=_capped({word for word in all_of[0] if not any(name in word for name in ids)}, told[0]),
        phrases=_capped(all_of[1], told[1]),
        joins=_capped(told[2], told[2]),
        hidden_joins=_capped(all_of[2] - told[2], set()),
        whole=whole,
        sizes=frozenset(len(data) for data in (*reference, *hidden) if len(data) >= SMALL_FILE),
        reference_words=_capped(told[0], set()),
        reference_phrases=_capped(told[1], set()),
        ids=ids,
    )


def _digests(files: Iterable[bytes], kind: _Kind) -> dict[str, _Kind]:
    return {hashlib.sha256(data).hexdigest(): kind for data in files if len(data) >= SMALL_FILE}


def _many(found: int, of: int) -> bool:
    return found >= min(2, of) and found > 0 and found >= _ENOUGH_JOINS * of


def added_text(diff: bytes) -> dict[str, bytes | None]:
    """Path to the lines that a unified diff adds or keeps: the secrets of `mimo scan --needles`."""
    found: dict[str, list[bytes]] = {}
    path = "diff"
    for line in diff.splitlines():
        if line.startswith(b"+++ "):
            path = line[4:].split(b"\t")[0].decode("utf-8", "replace").removeprefix("b/")
        elif line[:1] in (b"+", b" ") and not line.startswith(b"+++"):
            found.setdefault(path, []).append(line[1:])
    return {name: b"\n".join(lines) + b"\n" for name, lines in found.items()}


def _spaced(data: bytes) -> bytes:
    """The tokens of `data` with one space around each, so that layout does not count."""
    return b" " + b" ".join(_TOKEN.findall(data)) + b" "


def _grams(tokens: list[bytes]) -> Iterator[bytes]:
    for start in range(len(tokens) - GRAM + 1):
        yield b" " + b" ".join(tokens[start : start + GRAM]) + b" "


def _lines(data: bytes) -> Iterator[tuple[bytes, list[bytes]]]:
    """Every line with enough tokens, spaced, and its tokens."""
    for line in data.splitlines():
        tokens = _TOKEN.findall(line)
        if len(tokens) >= _MIN_LINE_TOKENS:
            yield b" " + b" ".join(tokens) + b" ", tokens


def _of(
    files: Iterable[bytes], known: tuple[set[bytes], set[bytes], set[bytes]]
) -> tuple[set[bytes], set[bytes], set[bytes]]:
    """Words, phrases and joins of `files` that the base does not know."""
    words: set[bytes] = set()
    phrases: set[bytes] = set()
    joins: set[bytes] = set()
    for data in files:
        words.update(_WORD.findall(data))
        for line, tokens in _lines(data):
            if line in known[2]:
                continue
            phrases.update(_grams(tokens) if len(tokens) >= GRAM else (line,))
        joins.update(_grams(_TOKEN.findall(data)))
    phrases -= known[1]
    return words - known[0], phrases, joins - known[1] - phrases


def _capped(needles: set[bytes], first: set[bytes]) -> frozenset[bytes]:
    """At most `_MOST` of them, the reference's first, chosen by digest so that the choice is the same
    always.
    """
    if len(needles) <= _MOST:
        return frozenset(needles)
    order = sorted(needles, key=lambda item: (item not in first, hashlib.sha256(item).digest()))
    return frozenset(order[:_MOST])
