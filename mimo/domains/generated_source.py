"""The recipe's entry `kind: generated` as a maker of task folders; a domain adds its families."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar, cast

from mimo.errors import RecipeError
from mimo.types import Json, Split

F = TypeVar("F")


class OfSplit(Protocol):
    """A family that belongs to one split."""

    @property
    def split(self) -> Split:
        """Which."""
        ...


S = TypeVar("S", bound=OfSplit)


def families_of_split(
    domain: str,
    families: Mapping[str, S],
    levels: Sequence[int],
    split: Split,
    *,
    names: Sequence[str] | None,
    level: int | None,
    offered: Sequence[S] | None = None,
) -> tuple[S, ...]:
    """The families of `split` that a source draws from, in order: those named, else those `offered` (all).

    Raises:
        RecipeError: an unknown family or level, or none left for this split.
    """
    unknown = [name for name in names or () if name not in families]
    if unknown:
        raise RecipeError(
            f"unknown task families {', '.join(unknown)} of the {domain} domain",
            hint=f"known: {', '.join(families)}",
        )
    if level is not None and level not in levels:
        raise RecipeError(f"level is {level}; the {domain} generator has {tuple(levels)}")
    told = list(families.values()) if offered is None else offered
    chosen = [families[name] for name in names] if names else told
    mine = tuple(entry for entry in chosen if entry.split == split)
    if not mine:
        raise RecipeError(
            f"no task family of the {domain} domain is left for the {split} split",
            hint="name some of that split or leave `families` out",
        )
    return mine


@dataclass(frozen=True, kw_only=True, slots=True)
class GeneratedSource(ABC, Generic[F]):
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

    @abstractmethod
    def pool(self, split: Split) -> tuple[F, ...]:
        """The families this source draws from in `split`; RecipeError if there are none."""

    @abstractmethod
    def task_id(self, split: Split, index: int, pool: tuple[F, ...]) -> str:
        """The id of the split's task number `index`."""

    @abstractmethod
    def write(self, split: Split, index: int, pool: tuple[F, ...], folder: Path) -> Path:
        """Draw that task and write its folder below `folder`; every byte follows from the arguments."""

    def task_ids(self) -> Sequence[str]:
        """Training tasks first, then held-out ones."""
        return tuple(_places(self))

    def build(self, task_id: str, folder: Path) -> Path:
        """The folder of one task; RecipeError for an id this source does not make."""
        place = _places(self).get(task_id)
        if place is None:
            raise RecipeError(f"this source makes no task {task_id}")
        split, index = place
        return self.write(split, index, self.pool(split), folder)

    def splits(self) -> list[tuple[Split, tuple[F, ...], int]]:
        """The splits that have tasks, with the families they draw from and their number of tasks."""
        counts: tuple[tuple[Split, int], ...] = (("train", self.train), ("heldout", self.heldout))
        return [(split, self.pool(split), number) for split, number in counts if number]


@lru_cache(maxsize=8)
def _places(source: GeneratedSource[Any]) -> dict[str, tuple[Split, int]]:
    return {
        source.task_id(split, index, pool): (split, index)
        for split, pool, count in source.splits()
        for index in range(count)
    }
