"""Policy-written text on its way to a judge: data in a marked envelope, no control or hidden characters."""

from __future__ import annotations

import secrets
import unicodedata

from mimo.types import Context

MAX_CHARS = 12_000
_MAX_LINE = 400


def as_data(name: str, text: str, *, max_chars: int = MAX_CHARS) -> str:
    """`text` between two lines that it cannot contain: they carry a number drawn for this call."""
    mark = f"DATA {secrets.token_hex(8)}"
    return f"<<<{mark} {name}\n{plain(text, max_chars=max_chars)}\n{mark}>>>"


def plain(text: str, *, max_chars: int = MAX_CHARS) -> str:
    """Printable text: escapes, zero-width and direction characters become `·`, lines and length are cut."""
    lines = [_cut(line) for line in text[: 2 * max_chars].split("\n")]
    joined = "\n".join("".join(map(_shown, line)) for line in lines)
    return joined if len(joined) <= max_chars else joined[:max_chars] + "\n[cut]"


def transcript(contexts: tuple[Context, ...]) -> str:
    """The turns of a rollout as text, without its system prompt."""
    rows = [
        f"[{number} {turn.role}] {turn.text}"
        for context in contexts
        for number, turn in enumerate(context.turns)
        if turn.role != "system"
    ]
    return "\n".join(rows)


def _cut(line: str) -> str:
    return line if len(line) <= _MAX_LINE else line[:_MAX_LINE] + " [line cut]"


def _shown(char: str) -> str:
    if char in "\t\n":
        return char
    return "·" if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") else char
