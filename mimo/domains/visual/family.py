"""What a family of pictures is: a maker of cases, each the right lines of a file and the words for them."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from mimo.types import Split

SIZE = 96
"""Width and height of every canvas, in pixels."""
COLOURS = (
    "red",
    "orange",
    "gold",
    "green",
    "teal",
    "blue",
    "navy",
    "purple",
    "pink",
    "brown",
    "black",
    "gray",
)
SLIP = (12, 16, 20)
"""By how much a wrong number is off: enough to be seen, little enough to be on the canvas."""

Value = str | int
Renderer = Literal["resvg", "chromium"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """One line of a file. `may_slip` are the attributes that can be wrong, all of them told in the words."""

    form: str
    """The line, with a `{name}` for each value."""
    values: Mapping[str, Value]
    may_slip: tuple[str, ...]

    def line(self) -> str:
        """The line as it stands in the file."""
        return self.form.format(**self.values)

    def slipped(self, rng: random.Random, taken: set[str]) -> Shape:
        """The same with one wrong value: a colour that is not in the picture, or a number that is off."""
        name = rng.choice(self.may_slip)
        value = self.values[name]
        wrong: Value
        if isinstance(value, int):
            wrong = _off(value, rng)
        elif value in COLOURS or value == "white":
            wrong = rng.choice([colour for colour in COLOURS if colour not in taken])
        else:
            wrong = _with_one_number_off(value, rng)
        return replace(self, values={**self.values, name: wrong})

    def colours(self) -> set[str]:
        """The colours in it."""
        return {str(value) for value in self.values.values() if value in COLOURS}


def _off(value: int, rng: random.Random) -> int:
    down, up = [value - by for by in SLIP if value - by >= 2], [value + by for by in SLIP if value + by <= 94]
    return rng.choice(down + up)


def _with_one_number_off(text: str, rng: random.Random) -> str:
    places = list(re.finditer(r"\d+", text))
    place = rng.choice(places)
    return text[: place.start()] + str(_off(int(place[0]), rng)) + text[place.end() :]


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One drawn picture: shapes from back to front, and words for all of it ('' if only an image tells)."""

    words: str
    shapes: tuple[Shape, ...]


Maker = Callable[[random.Random], Case]
"""The same draw gives the same case."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """A kind of picture. Held-out families are never trained on and never demonstrated."""

    name: str
    split: Split
    make: Maker
    kind: str
    """What it is about, for the table in docs/tasks.md."""
    renderer: Renderer = "resvg"
    seen: bool = False
    """The image is the description: the task needs sight."""

    @property
    def file(self) -> str:
        """The file that is rendered."""
        return "picture.html" if self.renderer == "chromium" else "picture.svg"


def rect(x: int, y: int, width: int, height: int, fill: str, *, may_slip: tuple[str, ...]) -> Shape:
    """A filled rectangle."""
    return Shape(
        form='<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{fill}"/>',
        values={"x": x, "y": y, "width": width, "height": height, "fill": fill},
        may_slip=may_slip,
    )


def circle(
    cx: int, cy: int, r: int, fill: str, *, may_slip: tuple[str, ...] = ("cx", "cy", "r", "fill")
) -> Shape:
    """A filled circle."""
    return Shape(
        form='<circle cx="{cx}" cy="{cy}" r="{r}" fill="{fill}"/>',
        values={"cx": cx, "cy": cy, "r": r, "fill": fill},
        may_slip=may_slip,
    )


def stroke(
    start: tuple[int, int], end: tuple[int, int], width: int, colour: str, *, may_slip: tuple[str, ...]
) -> Shape:
    """A straight line."""
    return Shape(
        form='<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{stroke}" stroke-width="{width}"/>',
        values={
            "x1": start[0],
            "y1": start[1],
            "x2": end[0],
            "y2": end[1],
            "stroke": colour,
            "width": width,
        },
        may_slip=may_slip,
    )


def polygon(
    points: list[tuple[int, int]], fill: str, *, may_slip: tuple[str, ...] = ("points", "fill")
) -> Shape:
    """A filled polygon."""
    text = " ".join(f"{x},{y}" for x, y in points)
    return Shape(
        form='<polygon points="{points}" fill="{fill}"/>',
        values={"points": text, "fill": fill},
        may_slip=may_slip,
    )


def colours(rng: random.Random, number: int) -> list[str]:
    """Different colours."""
    return rng.sample(COLOURS, number)


def corner_words(points: list[tuple[int, int]]) -> str:
    """Corners as the instruction says them."""
    return ", ".join(f"({x}, {y})" for x, y in points)
