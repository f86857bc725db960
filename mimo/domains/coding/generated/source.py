"""The recipe's entry `kind: generated` of the coding domain as a maker of task folders."""

from __future__ import annotations

from pathlib import Path

from mimo.domains.coding.generated.draw import draw, families_for, task_id
from mimo.domains.coding.generated.family import Family
from mimo.domains.coding.generated.write import write_task
from mimo.domains.generated_source import GeneratedSource
from mimo.types import Split

VERSION = "1"
"""Raise it when the same seed makes other tasks than before."""


class GeneratedTasks(GeneratedSource[Family]):
    """Small repositories with one planted bug each."""

    __slots__ = ()

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
