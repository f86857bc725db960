"""The recipe's entry `kind: generated` of the cyber domain as a maker of task folders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Self, cast

from mimo.domains.cyber.generated.draw import draw, families_for, task_id
from mimo.domains.cyber.generated.plant import Family
from mimo.domains.cyber.generated.write import write_task
from mimo.errors import RecipeError
from mimo.types import Json, Split

VERSION = "1"
"""Raise it when the same seed makes other tasks than before."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GeneratedPrograms:
    """`train` and `heldout` tasks by seed, from some families and a level (None: all)."""

    seed: int
    train: int
    heldout: int
    families: tuple[str, ...] | None
    level: int | None

    @classmethod
    def of(cls, source: Mapping[str, Json]) -> Self:
        """From the recipe's entry as plain data; RecipeError for unknown families or levels."""
        families = cast("list[str] | None", source.get("families"))
        made = cls(
            seed=int(cast(int, source["seed"])),
            train=int(cast(int, source.get("train", 0))),
            heldout=int(cast(int, source.get("heldout", 0))),
            families=None if families is None else tuple(families),
            level=cast("int | None", source.get("level")),
        )
        made.splits()
        return made

    def task_ids(self) -> Sequence[str]:
        """Training tasks first, then held-out ones."""
        return tuple(_places(self))

    def build(self, task_id: str, folder: Path) -> Path:
        """The folder of one task; RecipeError for an id this source does not make."""
        place = _places(self).get(task_id)
        if place is None:
            raise RecipeError(f"this source makes no task {task_id}")
        split, index = place
        pool = families_for(split, self.families, self.level)
        version = f"{VERSION}/{self.seed}/{split}/{index}"
        return write_task(draw(self.seed, split, index, pool, self.level), version, folder)

    def splits(self) -> list[tuple[Split, tuple[Family, ...], int]]:
        """The splits that have tasks, with the families they draw from and their number of tasks."""
        counts: tuple[tuple[Split, int], ...] = (("train", self.train), ("heldout", self.heldout))
        return [(split, families_for(split, self.families, self.level), n) for split, n in counts if n]


@lru_cache(maxsize=8)
def _places(source: GeneratedPrograms) -> dict[str, tuple[Split, int]]:
    return {
        task_id(source.seed, split, index, pool, source.level): (split, index)
        for split, pool, count in source.splits()
        for index in range(count)
    }
