"""Mixed reinforcement learning, synchronous: sample groups, judge them, make the signal, train, record.

One step: groups of rollouts under the current weights -> hack audit and grades -> METHOD 7's order -> a batch
on disk -> one DeepSpeed step -> weights into the sampler, checked by the canary -> checkpoint -> commit. A
kill at any moment loses at most the step in flight.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from mimo.recipe.models import Recipe
from mimo.stages.base import StageContext, StageResult
from mimo.stages.params import policy_params, rollout_params
from mimo.types import Json


class RlMixed:
    """Groups of rollouts, graded rewards, one optimiser step each."""

    name: ClassVar[str] = "rl-mixed"
    summary: ClassVar[str] = "Reinforcement learning on groups of rollouts with graded rewards."
    version: ClassVar[int] = 1
    cost: ClassVar[Literal["light", "heavy"]] = "heavy"
    reads: ClassVar[tuple[str, ...]] = ("prepare-env", "probe-hacks", "cold-start", "synthesize-rubrics")
    built: ClassVar[bool] = True

    def params(self, recipe: Recipe) -> dict[str, Json]:
        """The method, the policy and what a rollout is."""
        return {
            "rl_mixed": recipe.rl_mixed.model_dump(mode="json"),
            "grading": recipe.grading.model_dump(mode="json"),
            "policy": policy_params(recipe),
            "canary": recipe.canary.model_dump(mode="json"),
            **rollout_params(recipe),
        }

    def horizon(self, recipe: Recipe) -> dict[str, int]:
        """Raising the number of steps continues."""
        return {"rl_mixed.steps": recipe.rl_mixed.steps}

    def run(self, ctx: StageContext) -> StageResult:
        """Train from the last committed step to the recipe's number of steps."""
        from mimo.stages.rl_loop import train

        ctx.plan(ctx.recipe.rl_mixed.steps)
        return train(ctx)
