"""Cold start: supervised training on replayed demonstrations, so that the policy speaks its harnesses.

With `stop_pass_rate` it samples now and then and stops inside the band, so that reinforcement learning finds
groups that are neither all right nor all wrong.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from mimo.errors import StageFailed
from mimo.recipe.models import Recipe
from mimo.recipe.training_sections import ColdStart as ColdStartSettings
from mimo.stages.base import StageContext, StageResult
from mimo.stages.params import policy_params, rollout_params
from mimo.types import Json


class ColdStart:
    """Supervised training on demonstrations that the verifier passes."""

    name: ClassVar[str] = "cold-start"
    summary: ClassVar[str] = "Supervised training on replayed, verified demonstrations."
    version: ClassVar[int] = 1
    cost: ClassVar[Literal["light", "heavy"]] = "heavy"
    reads: ClassVar[tuple[str, ...]] = ("prepare-env", "probe-hacks")
    built: ClassVar[bool] = True

    def params(self, recipe: Recipe) -> dict[str, Json]:
        """The method, the policy and what a demonstration is."""
        return {
            "cold_start": settings(recipe).model_dump(mode="json"),
            "policy": policy_params(recipe),
            "canary": recipe.canary.model_dump(mode="json"),
            **rollout_params(recipe),
        }

    def horizon(self, recipe: Recipe) -> dict[str, int]:
        """Raising the number of steps continues."""
        return {"cold_start.steps": settings(recipe).steps}

    def run(self, ctx: StageContext) -> StageResult:
        """Replay the demonstrations, train, publish."""
        from mimo.stages.cold_start_loop import cold_start

        spec = settings(ctx.recipe)
        if spec.corrections is not None:
            raise StageFailed(
                f"cold_start.corrections is {spec.corrections}: correction turns are not built yet",
                hint="set cold_start.corrections: null",
            )
        ctx.plan(spec.steps)
        return cold_start(ctx, spec)


def settings(recipe: Recipe) -> ColdStartSettings:
    """The recipe's cold start; the pipeline drops the stage where it is null."""
    assert recipe.cold_start is not None
    return recipe.cold_start
