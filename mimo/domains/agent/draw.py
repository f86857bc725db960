"""One task drawn from (seed, split, index): a family, a level, and the family's case."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass

from mimo.domains.agent.families import FAMILIES
from mimo.domains.agent.family import Case, Family
from mimo.domains.generated_source import families_of_split
from mimo.types import Split

LEVELS = (1, 2)


@dataclass(frozen=True, kw_only=True, slots=True)
class Draw:
    """Everything that makes one generated task."""

    task_id: str
    family: Family
    level: int
    case: Case


def task_id(seed: int, split: Split, index: int, pool: tuple[Family, ...], level: int | None) -> str:
    """The opaque id of one generated task."""
    names = ",".join(entry.name for entry in pool)
    return "a" + hashlib.sha256(f"agent/{seed}/{split}/{index}/{level}/{names}".encode()).hexdigest()[:12]


def families_for(split: Split, names: Sequence[str] | None, level: int | None) -> tuple[Family, ...]:
    """The families a source draws from, in order.

    Raises:
        RecipeError: an unknown family or level, or none left for this split.
    """
    return families_of_split("agent", FAMILIES, LEVELS, split, names=names, level=level)


def draw(seed: int, split: Split, index: int, pool: tuple[Family, ...], level: int | None) -> Draw:
    """The task number `index` of a split; the same arguments give the same task."""
    rng = random.Random(f"mimo-agent/{seed}/{split}/{index}")
    entry = pool[index % len(pool)]
    chosen = level if level is not None else rng.choice(LEVELS)
    return Draw(
        task_id=task_id(seed, split, index, pool, level),
        family=entry,
        level=chosen,
        case=entry.make(rng, chosen),
    )
