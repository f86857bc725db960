"""Tables of words as they are read best: one string."""

from __future__ import annotations


def words(text: str) -> tuple[str, ...]:
    """The words of a text, in order."""
    return tuple(text.split())
