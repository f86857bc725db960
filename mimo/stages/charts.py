"""Charts of the report as inline SVG; colours come from the page's style sheet (light and dark)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mimo.stages.markup import duration, number, percent, text

WIDTH = 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 10, 8, 22
COLOURS = 7


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """One row of the interval chart: a share and its confidence interval, all in [0, 1] or None."""

    label: str
    rate: float | None
    low: float | None
    high: float | None
    colour: int


def intervals(rows: Sequence[Interval]) -> str:
    """Dots with whiskers on one axis from 0 to 100 %."""
    left, right, step = 96, 52, 26
    width, height = 430, step * len(rows) + 26
    span = width - left - right

    def at(value: float) -> float:
        return left + span * min(max(value, 0.0), 1.0)

    parts = [
        f'<line class="rule" x1="{at(tick):.1f}" x2="{at(tick):.1f}" y1="4" y2="{height - 20}"/>'
        f'<text x="{at(tick):.1f}" y="{height - 6}" text-anchor="middle">{tick * 100:.0f} %</text>'
        for tick in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    for index, row in enumerate(rows):
        y = 17 + index * step
        name = row.label if len(row.label) <= 15 else row.label[:14] + "…"
        parts.append(f'<text class="ink" x="0" y="{y + 4}">{text(name)}</text>')
        if row.rate is None:
            parts.append(f'<text x="{left + 6}" y="{y + 4}">not measured</text>')
            continue
        if row.low is not None and row.high is not None:
            ends = f'x1="{at(row.low):.1f}" x2="{at(row.high):.1f}"'
            parts.append(f'<line class="interval s{row.colour % COLOURS}" {ends} y1="{y}" y2="{y}"/>')
        parts.append(f'<circle class="s{row.colour % COLOURS}" cx="{at(row.rate):.1f}" cy="{y}" r="4.5"/>')
        parts.append(
            f'<text class="ink" x="{width}" y="{y + 4}" text-anchor="end">{percent(row.rate)}</text>'
        )
    return _svg(width, height, parts, "pass rates with confidence intervals")


def curve(points: Sequence[tuple[float, float]], label: str, bound: float | None = None) -> str:
    """A line over steps with its lowest and highest value named; `bound` is drawn dashed.

    Points that are not finite leave a gap.
    """
    height = 150
    finite = [(step, value) for step, value in points if math.isfinite(step) and math.isfinite(value)]
    if not finite:
        return '<p class="soft">no points</p>'
    low, high = _limits([value for _, value in finite] + ([bound] if bound is not None else []))
    first, last = finite[0][0], finite[-1][0]

    def place(step: float, value: float) -> str:
        return f"{_x(step, first, last):.1f},{_y(value, low, high, height):.1f}"

    parts = [
        f'<line class="rule" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_tick(value)}</text>'
        for value in (low, (low + high) / 2, high)
        for y in [_y(value, low, high, height)]
    ]
    parts.append(f'<text x="{_LEFT}" y="{height - 6}">step {number(first)}</text>')
    if last > first:
        end = f'x="{WIDTH - _RIGHT}" y="{height - 6}" text-anchor="end"'
        parts.append(f"<text {end}>{number(last)}</text>")
    if bound is not None:
        y = _y(bound, low, high, height)
        parts.append(f'<line class="bound" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
    for piece in _pieces(points):
        parts.append(f'<polyline class="curve" points="{" ".join(place(*point) for point in piece)}"/>')
    radius = 2.2 if len(finite) <= 60 else 0.0
    parts.extend(
        f'<circle class="dot" cx="{_x(step, first, last):.1f}" cy="{_y(value, low, high, height):.1f}" '
        f'r="{radius}"><title>step {number(step)}: {number(value)}</title></circle>'
        for step, value in finite
        if radius
    )
    return _svg(WIDTH, height, parts, label)


def shares(parts: Sequence[tuple[str, float]]) -> str:
    """One bar cut into the parts' shares."""
    total = sum(value for _, value in parts)
    if total <= 0:
        return '<p class="soft">nothing was timed</p>'
    width, at, drawn = 1000.0, 0.0, []
    for index, (name, value) in enumerate(parts):
        length = width * value / total
        drawn.append(
            f'<rect class="s{index % COLOURS} share" x="{at:.1f}" y="0" width="{length:.1f}" height="26">'
            f"<title>{text(name)}: {duration(value)}, {percent(value / total)}</title></rect>"
        )
        at += length
    return _svg(int(width), 26, drawn, "shares of time", kind="bar")


def _svg(width: int, height: int, parts: Sequence[str], label: str, kind: str = "chart") -> str:
    stretch = ' preserveAspectRatio="none"' if kind == "bar" else ""
    box = f'class="{kind}" viewBox="0 0 {width} {height}"{stretch}'
    return f'<svg {box} role="img" aria-label="{text(label)}">{"".join(parts)}</svg>'


def _tick(value: float) -> str:
    """A number of at most seven characters for the axis: `0.65`, `2.2e-4`."""
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:.3g}"
    digits, _, power = f"{value:.1e}".partition("e")
    return f"{digits}e{int(power)}"


def _limits(values: Sequence[float]) -> tuple[float, float]:
    """Axis ends; a flat curve gets room above and below."""
    low, high = min(values), max(values)
    if low == high:
        room = abs(low) * 0.1 or 1.0
        return low - room, high + room
    return low, high


def _x(step: float, first: float, last: float) -> float:
    share = (step - first) / (last - first) if last > first else 0.5
    return _LEFT + share * (WIDTH - _LEFT - _RIGHT)


def _y(value: float, low: float, high: float, height: int) -> float:
    return height - _BOTTOM - (value - low) / (high - low) * (height - _TOP - _BOTTOM)


def _pieces(points: Sequence[tuple[float, float]]) -> list[list[tuple[float, float]]]:
    """The stretches between points that are not finite."""
    pieces: list[list[tuple[float, float]]] = [[]]
    for step, value in points:
        if math.isfinite(step) and math.isfinite(value):
            pieces[-1].append((step, value))
        elif pieces[-1]:
            pieces.append([])
    return [piece for piece in pieces if len(piece) > 1]
