"""Try each training task several times, route it to GRS or GAR, write rubrics from the contrast.

The cold-start policy attempts every task; its weights go into the run's sampler as in every stage, canary
included. A task whose attempts pass often enough goes to GRS if at least `min_separating` measurable criteria
tell its passing attempts apart; every other task goes to GAR. Attempts of a chunk of tasks are one commit.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from mimo.recipe.models import Recipe
from mimo.stages.base import StageContext, StageResult
from mimo.stages.params import policy_params, rollout_params
from mimo.types import Json


class SynthesizeRubrics:
    """Several attempts per task, their pass rates, the routing, rubrics."""

    name: ClassVar[str] = "synthesize-rubrics"
    summary: ClassVar[str] = (
        "Try each task several times, route it to GRS or GAR, write rubrics from the contrast."
    )
    version: ClassVar[int] = 1
    cost: ClassVar[Literal["light", "heavy"]] = "light"
    reads: ClassVar[tuple[str, ...]] = ("prepare-env", "probe-hacks", "cold-start")
    built: ClassVar[bool] = True

    def params(self, recipe: Recipe) -> dict[str, Json]:
        """How much is sampled, from what, and how it is graded."""
        judge = recipe.grading.judge
        return {
            "synthesize_rubrics": recipe.synthesize_rubrics.model_dump(mode="json"),
            "grs_min_pass_rate": recipe.grading.grs_min_pass_rate,
            "judge": None if judge is None else judge.model_dump(mode="json"),
            "policy": policy_params(recipe),
            "canary": recipe.canary.model_dump(mode="json"),
            **rollout_params(recipe),
        }

    def horizon(self, recipe: Recipe) -> dict[str, int]:  # noqa: ARG002 - the contract's signature
        """Nothing to continue."""
        return {}

    def run(self, ctx: StageContext) -> StageResult:
        """Attempt every chunk of tasks not attempted yet, then route and write rubrics."""
        from mimo.stages.rubrics_loop import synthesize_rubrics

        return synthesize_rubrics(ctx)
