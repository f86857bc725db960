"""Distillation on what the student samples, with teacher and SFT prefixes (MOPD2; METHOD 10, docs/mopd2.md).

One step: student rollouts, and single turns after a teacher's or an expert's history -> the preassigned
teacher scores the student's tokens -> k1 advantages -> a batch on disk -> one DeepSpeed step -> weights into
the sampler, checked by the canary -> checkpoint -> commit. Teachers' scores take the place of rewards.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from mimo.recipe.models import Recipe
from mimo.stages.base import StageContext, StageResult
from mimo.stages.params import policy_params, rollout_params
from mimo.types import Json

_FROM_RL = {"optimizer", "grad_clip", "mask", "shares", "group_size", "aggregation", "keep_checkpoints"}


class Mopd2:
    """Distil teachers into the student, with teacher and SFT prefixes."""

    name: ClassVar[str] = "mopd2"
    summary: ClassVar[str] = "Distil teachers into the student, with teacher and SFT prefixes."
    version: ClassVar[int] = 1
    cost: ClassVar[Literal["light", "heavy"]] = "heavy"
    reads: ClassVar[tuple[str, ...]] = (
        "prepare-env",
        "probe-hacks",
        "cold-start",
        "synthesize-rubrics",
        "rl-mixed",
    )
    built: ClassVar[bool] = True

    def params(self, recipe: Recipe) -> dict[str, Json]:
        """The method, the policy, what a rollout is, and what is shared with rl-mixed."""
        return {
            "mopd2": recipe.mopd2.model_dump(mode="json"),
            "rl_mixed": recipe.rl_mixed.model_dump(mode="json", include=_FROM_RL),
            "spread_epsilon": recipe.grading.spread_epsilon,
            "policy": policy_params(recipe),
            "canary": recipe.canary.model_dump(mode="json"),
            "turn_s": recipe.tasks.limits.turn_s,
            **rollout_params(recipe),
        }

    def horizon(self, recipe: Recipe) -> dict[str, int]:
        """Raising the number of steps continues."""
        return {"mopd2.steps": recipe.mopd2.steps}

    def run(self, ctx: StageContext) -> StageResult:
        """Train from the last committed step to the recipe's number of steps."""
        from mimo.stages.mopd2_loop import distil

        ctx.plan(ctx.recipe.mopd2.steps)
        return distil(ctx)
