"""The audit: every policy of the run on training and held-out tasks, time shares, one report (JSON, HTML).

Each policy's weights go into the sampler the way a training stage's do, canary included; the other side of
the canary is the checkpoint's own folder, read by transformers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from mimo.recipe.models import Recipe
from mimo.stages.base import StageContext, StageResult
from mimo.stages.params import policy_params, rollout_params
from mimo.types import Json

if TYPE_CHECKING:
    pass

TRAINED = ("cold-start", "rl-mixed", "mopd2")
"""Stages that leave a policy, in their order."""


class Audit:
    """Pass rates of every policy, cost shares, the report."""

    name: ClassVar[str] = "audit"
    summary: ClassVar[str] = "Evaluate every policy of the run and write the report."
    version: ClassVar[int] = 1
    cost: ClassVar[Literal["light", "heavy"]] = "light"
    reads: ClassVar[tuple[str, ...]] = ("prepare-env", "probe-hacks", *TRAINED)
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
        """Evaluate each policy not evaluated yet, then write the report."""
        from mimo.stages.audit_loop import audit

        return audit(ctx)
