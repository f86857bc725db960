"""Text and numbers as HTML: everything is escaped, characters that could deceive are made visible."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Sequence

from mimo.types import Json

TEXT_LIMIT = 20_000
NONE = "–"
_DECEIVING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
"""Control and escape characters, zero-width and text-direction marks, halves of pairs."""


def text(value: Json) -> str:
    """`value` for an element or a quoted attribute; cut at 20,000 characters, the cut says so."""
    if value is None:
        return NONE
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number(value)
    raw = str(value).replace("\r\n", "\n")
    shown = _DECEIVING.sub(lambda match: f"\\x{ord(match[0]):02x}", raw[:TEXT_LIMIT])
    rest = f"\n[cut: {len(raw)} characters in all]" if len(raw) > TEXT_LIMIT else ""
    return html.escape(shown + rest, quote=True)


def number(value: Json, digits: int = 4) -> str:
    """A number with so many significant digits; a dash for None and what is not finite."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return NONE
    if isinstance(value, int) or (value == int(value) and abs(value) < 1e15):
        return f"{int(value):,}".replace(",", "\u202f")
    return f"{value:.{digits}g}"


def percent(value: Json, digits: int = 1) -> str:
    """A share in percent, a dash for None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return NONE
    return f"{100 * value:.{digits}f} %"


def duration(seconds: Json) -> str:
    """Seconds as `1 h 02 min`, `3 min 05 s` or `4.2 s`."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not math.isfinite(seconds):
        return NONE
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def size(count: Json) -> str:
    """Bytes in a unit that reads well."""
    if isinstance(count, bool) or not isinstance(count, int | float):
        return NONE
    value, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], right: frozenset[int] = frozenset()) -> str:
    """A table of ready cells (already escaped); columns in `right` hold numbers."""

    def cells(tag: str, values: Sequence[str]) -> str:
        return "".join(
            f'<{tag} class="n">{value}</{tag}>' if index in right else f"<{tag}>{value}</{tag}>"
            for index, value in enumerate(values)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    head = cells("th", [text(column) for column in columns])
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
