"""A stage that has its place in the order and is not built yet: `run` skips it with a visible line."""

from __future__ import annotations

from typing import ClassVar, Literal

from mimo.errors import StageFailed
from mimo.recipe.models import Recipe
from mimo.stages.base import StageContext, StageResult
from mimo.types import Json


class NotBuilt:
    """Facts shared by the stages that wait for their issue."""

    name: ClassVar[str]
    summary: ClassVar[str]
    version: ClassVar[int] = 0
    cost: ClassVar[Literal["light", "heavy"]] = "light"
    reads: ClassVar[tuple[str, ...]] = ("prepare-env",)
    built: ClassVar[bool] = False

    def params(self, recipe: Recipe) -> dict[str, Json]:  # noqa: ARG002 - the contract's signature
        """Nothing: no result depends on it yet."""
        return {}

    def horizon(self, recipe: Recipe) -> dict[str, int]:  # noqa: ARG002
        """Nothing to continue."""
        return {}

    def run(self, ctx: StageContext) -> StageResult:
        """Refuses: the pipeline skips stages that are not built."""
        raise StageFailed(f"stage {self.name} is not built in this version of mimo", hint=str(ctx.out))
