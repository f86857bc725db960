"""Held-out families: no training task and no demonstration is made of them."""

from __future__ import annotations

import random

from mimo.domains.visual.family import (
    Case,
    Family,
    Shape,
    circle,
    colours,
    corner_words,
    polygon,
    rect,
    stroke,
)

_WAYS = {"up": (0, -1), "right": (1, 0), "down": (0, 1), "left": (-1, 0)}
_QUARTERS = {
    "upper right": "M48 48 L48 {low} A{r} {r} 0 0 1 {high} 48 Z",
    "lower right": "M48 48 L{high} 48 A{r} {r} 0 0 1 48 {high} Z",
    "lower left": "M48 48 L48 {high} A{r} {r} 0 0 1 {low} 48 Z",
    "upper left": "M48 48 L{low} 48 A{r} {r} 0 0 1 48 {low} Z",
}


def clock(rng: random.Random) -> Case:
    """A dial with two hands."""
    dial, hour, minute = colours(rng, 3)
    hour_way, minute_way = rng.sample(list(_WAYS), 2)
    ends = [
        (48 + _WAYS[way][0] * length, 48 + _WAYS[way][1] * length)
        for way, length in ((hour_way, 22), (minute_way, 36))
    ]
    shapes = (
        circle(48, 48, 44, dial, may_slip=("r", "fill")),
        stroke((48, 48), ends[0], 8, hour, may_slip=("x2", "y2", "stroke")),
        stroke((48, 48), ends[1], 4, minute, may_slip=("x2", "y2", "stroke")),
    )
    return Case(
        words=f"a clock: a {dial} disc at (48, 48) with radius 44; from its centre a {hour} line, 8 wide, "
        f"22 long, {hour_way}, and a {minute} line, 4 wide, 36 long, {minute_way}",
        shapes=shapes,
    )


def house(rng: random.Random) -> Case:
    """Walls, a roof, a door."""
    wall, roof, door = colours(rng, 3)
    left = rng.choice((24, 40, 56))
    points = [(8, 44), (48, 10), (88, 44)]
    shapes = (
        rect(16, 44, 64, 48, wall, may_slip=("x", "width", "fill")),
        polygon(points, roof),
        rect(left, 64, 16, 28, door, may_slip=("x", "y", "fill")),
    )
    return Case(
        words=f"a house: {wall} walls, x 16 to 80, y 44 to 92; a {roof} triangle {corner_words(points)}; "
        f"a {door} door, x {left} to {left + 16}, y 64 to 92",
        shapes=shapes,
    )


def pie(rng: random.Random) -> Case:
    """Quarters of a disc."""
    r = rng.choice((32, 40, 44))
    quarters = rng.sample(list(_QUARTERS), rng.choice((2, 3)))
    chosen = colours(rng, len(quarters))
    shapes = tuple(
        Shape(
            form='<path d="{d}" fill="{fill}"/>',
            values={"d": _QUARTERS[name].format(low=48 - r, high=48 + r, r=r), "fill": colour},
            may_slip=("fill",),
        )
        for name, colour in zip(quarters, chosen, strict=True)
    )
    told = ", ".join(f"{name} {colour}" for name, colour in zip(quarters, chosen, strict=True))
    return Case(
        words=f"quarters of a disc at (48, 48) with radius {r}: {told}; the rest is white", shapes=shapes
    )


FAMILIES = (
    Family(name="clock", split="heldout", make=clock, kind="a dial with two hands"),
    Family(name="house", split="heldout", make=house, kind="walls, a roof, a door"),
    Family(name="pie", split="heldout", make=pie, kind="quarters of a disc"),
)
