"""Cold start: supervised training on replayed demonstrations, so that the policy speaks its harnesses.

With `stop_pass_rate` it samples now and then and stops inside the band, so that reinforcement learning finds
groups that are neither all right nor all wrong. Some demonstrations hold a mistake and its correction.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import ClassVar, Literal

from mimo.recipe.environment import resolve_env
from mimo.recipe.models import Recipe
from mimo.recipe.training_sections import ColdStart as ColdStartSettings
from mimo.rollouts.corrections import read_corrections
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
        """The method, the policy and what a demonstration is; of a corrections file what it holds.

        Raises:
            RecipeError: the corrections file is missing or is none.
        """
        spec = settings(recipe)
        return {
            "cold_start": {**spec.model_dump(mode="json"), "corrections": _digest(spec.corrections)},
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
        ctx.plan(spec.steps)
        return cold_start(ctx, spec)


def settings(recipe: Recipe) -> ColdStartSettings:
    """The recipe's cold start; the pipeline drops the stage where it is null."""
    assert recipe.cold_start is not None
    return recipe.cold_start


def _digest(corrections: str | None) -> str | None:
    """sha256 of the corrections file, 16 digits: wherever it lies, the same content is the same input."""
    if corrections is None:
        return None
    path = Path(resolve_env(corrections))
    read_corrections(path)  # a bad file is refused before anything runs
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
