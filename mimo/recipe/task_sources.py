"""Where tasks come from: a list of entries told apart by `kind`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from mimo.recipe.model_base import Many, Section, Whole
from mimo.types import Domain, Split

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class GeneratedSource(Section):
    """Tasks made by the domain's seeded generator."""

    kind: Literal["generated"]
    """Entry type."""
    domain: Domain
    """Domain whose generator makes them."""
    seed: Whole
    """Seed of the generator; the same seed makes the same tasks."""
    train: Whole
    """Number of training tasks."""
    heldout: Whole
    """Number of held-out tasks (drawn from the families kept for evaluation)."""
    families: Many[str] | None = None
    """Names of the families to draw from; null = all."""
    level: Whole | None = None
    """Difficulty level of the generator; null = all levels it has."""

    @model_validator(mode="after")
    def _makes_something(self) -> GeneratedSource:
        if self.train + self.heldout == 0:
            raise ValueError("train and heldout are both 0: this source makes no task")
        return self


class PypiPairSource(Section):
    """One real bug-fix task: the source archives of two neighbouring releases of a package."""

    kind: Literal["pypi-pair"]
    """Entry type."""
    domain: Domain
    """Domain of the task."""
    package: Annotated[str, Field(min_length=1)]
    """Name of the package."""
    old: Annotated[str, Field(min_length=1)]
    """Release that has the bug."""
    new: Annotated[str, Field(min_length=1)]
    """Release that fixes it; its tests are the hidden tests."""
    sha256_old: Sha256
    """sha256 of the old source archive."""
    sha256_new: Sha256
    """sha256 of the new source archive."""
    split: Split
    """train or heldout."""
    license: str | None = None
    """Licence of the package; null = read from its metadata."""

    @model_validator(mode="after")
    def _differ(self) -> PypiPairSource:
        if self.old == self.new:
            raise ValueError(f"old and new are both {self.old}: nothing to fix")
        return self


class FolderSource(Section):
    """Task folders (Harbor layout) below a folder on this machine."""

    kind: Literal["folder"]
    """Entry type."""
    domain: Domain
    """Domain of the tasks."""
    path: Annotated[str, Field(min_length=1)]
    """Folder; relative to the file it is written in."""
    split: Split
    """train or heldout."""


TaskSource = Annotated[GeneratedSource | PypiPairSource | FolderSource, Field(discriminator="kind")]
