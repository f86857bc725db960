"""The recipe's entry `kind: generated` of the visual domain as a maker of task folders."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Self

from mimo.domains.generated_source import GeneratedSource
from mimo.domains.visual.draw import draw, families_for, task_id
from mimo.domains.visual.family import Family
from mimo.domains.visual.write import write_task
from mimo.errors import RecipeError
from mimo.types import Json, Split

VERSION = "1"
"""Raise it when the same seed makes other tasks than before."""


class GeneratedPictures(GeneratedSource[Family]):
    """Pictures to draw or to repair."""

    __slots__ = ()

    @classmethod
    def of(cls, source: Mapping[str, Json]) -> Self:
        """From the recipe's entry as plain data; RecipeError for unknown families, levels or kinds."""
        if source["kind"] != "generated":
            raise RecipeError(
                f"the visual domain has no task source {source['kind']!r}", hint="known: generated"
            )
        return super().of(source)

    def pool(self, split: Split) -> tuple[Family, ...]:
        """The split's families among those asked for."""
        return families_for(split, self.families, self.level)

    def task_id(self, split: Split, index: int, pool: tuple[Family, ...]) -> str:
        """See `GeneratedSource.task_id`."""
        return task_id(self.seed, split, index, pool, self.level)

    def write(self, split: Split, index: int, pool: tuple[Family, ...], folder: Path) -> Path:
        """See `GeneratedSource.write`."""
        version = f"{VERSION}/{self.seed}/{split}/{index}"
        return write_task(draw(self.seed, split, index, pool, self.level), version, folder)
