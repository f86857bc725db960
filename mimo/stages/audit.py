"""The audit: every policy evaluated, every trajectory audited for hacks, a gate, one report (JSON, HTML).

Each policy's weights go into the sampler the way a training stage's do, canary included; the other side of
the canary is the checkpoint's own folder, read by transformers. Then, without sampling: the hack audit of all
stages' trajectories, the check that confirmed hacks were reset, graded quality and the maintainer's word on
the audit's own rollouts, corrections for a later cold start, the gate. A gate that says no ends the run with
exit code 4; the report is published all the same.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from mimo.recipe.models import Recipe
from mimo.stages.base import StageContext, StageResult
from mimo.stages.params import policy_params, rollout_params
from mimo.types import Json

TRAINED = ("cold-start", "rl-mixed", "mopd2")
"""Stages that leave a policy, in their order."""


class Audit:
    """Pass rates and quality of every policy, hacks of the whole run, cost shares, the gate, the report."""

    name: ClassVar[str] = "audit"
    summary: ClassVar[str] = (
        "Evaluate every policy, audit every trajectory for hacks, judge the gate, write the report."
    )
    version: ClassVar[int] = 2
    cost: ClassVar[Literal["light", "heavy"]] = "light"
    reads: ClassVar[tuple[str, ...]] = (
        "prepare-env",
        "probe-hacks",
        "cold-start",
        "synthesize-rubrics",
        "rl-mixed",
        "mopd2",
    )
    built: ClassVar[bool] = True

    def params(self, recipe: Recipe) -> dict[str, Json]:
        """How much is sampled, and from what."""
        return {
            "audit": recipe.audit.model_dump(mode="json"),
            "policy": policy_params(recipe),
            "canary": recipe.canary.model_dump(mode="json"),
            **rollout_params(recipe),
        }

    def horizon(self, recipe: Recipe) -> dict[str, int]:  # noqa: ARG002 - the contract's signature
        """Nothing to continue."""
        return {}

    def run(self, ctx: StageContext) -> StageResult:
        """Evaluate each policy not evaluated yet, then audit what all stages left and write the report."""
        from mimo.stages.audit_loop import audit

        return audit(ctx)
