"""One task drawn from (seed, split, index): a family, a level, the picture, and the file it starts from.

Level 1: the file is there and one line has a wrong value. Level 2: the file is an empty canvas.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass

from mimo.domains.generated_source import families_of_split
from mimo.domains.visual.families import FAMILIES
from mimo.domains.visual.family import SIZE, Case, Family
from mimo.types import Split

LEVELS = (1, 2)
FRAMES = {
    "resvg": (f'<svg xmlns="http://www.w3.org/2000/svg" width="{SIZE}" height="{SIZE}">', "</svg>"),
    "chromium": ("<!doctype html>", "</html>"),
}
"""First and last line of a file, by what renders it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Draw:
    """Everything that makes one generated task. `wrong` is the place of the wrong shape (None: level 2)."""

    task_id: str
    family: Family
    level: int
    case: Case
    start: tuple[str, ...]
    wrong: int | None

    def right(self) -> tuple[str, ...]:
        """The lines of the file as they should be."""
        return framed(self.family, [shape.line() for shape in self.case.shapes])


def framed(family: Family, lines: Sequence[str]) -> tuple[str, ...]:
    """The lines of a file around these shapes."""
    first, last = FRAMES[family.renderer]
    return (first, *lines, last)


def task_id(seed: int, split: Split, index: int, pool: tuple[Family, ...], level: int | None) -> str:
    """The opaque id of one generated task."""
    names = ",".join(entry.name for entry in pool)
    return "v" + hashlib.sha256(f"visual/{seed}/{split}/{index}/{level}/{names}".encode()).hexdigest()[:12]


def families_for(split: Split, names: Sequence[str] | None, level: int | None) -> tuple[Family, ...]:
    """The families a source draws from, in order.

    Raises:
        RecipeError: an unknown family or level, or none left for this split.
    """
    told = [entry for entry in FAMILIES.values() if not entry.seen]  # the others are asked for by name
    return families_of_split("visual", FAMILIES, LEVELS, split, names=names, level=level, offered=told)


def draw(seed: int, split: Split, index: int, pool: tuple[Family, ...], level: int | None) -> Draw:
    """The task number `index` of a split; the same arguments give the same task."""
    rng = random.Random(f"mimo-visual/{seed}/{split}/{index}")
    entry = pool[index % len(pool)]
    chosen = level if level is not None else rng.choice(LEVELS)
    case = entry.make(rng)
    lines, wrong = [], None
    if chosen == 1:
        wrong = rng.randrange(len(case.shapes))
        taken = set().union(*(shape.colours() for shape in case.shapes))
        lines = [shape.line() for shape in case.shapes]
        lines[wrong] = case.shapes[wrong].slipped(rng, taken).line()
    return Draw(
        task_id=task_id(seed, split, index, pool, level),
        family=entry,
        level=chosen,
        case=case,
        start=framed(entry, lines),
        wrong=wrong,
    )
