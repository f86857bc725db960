"""What a stage's work is made of, how many tasks a recipe has, and the size of a mean rollout."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mimo.errors import RecipeError
from mimo.pipeline.estimate import assumptions as known
from mimo.pipeline.estimate.assumptions import Assumed
from mimo.recipe.models import Recipe
from mimo.types import Json


@dataclass(frozen=True, kw_only=True, slots=True)
class RolloutSize:
    """The mean rollout of a trained policy, in tokens; `opening` is what a group's rollouts share."""

    tokens: float
    generated: float
    turns: float
    opening: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """What one stage does, summed over its steps. Zero where it does no such thing."""

    stage: str
    environments: int = 0
    """Environments built, or probed."""
    verdicts: float = 0.0
    """Verifications that no policy's rollout asks for (gates, demonstrations)."""
    real_verdicts: float = 0.0
    """Verifications by a real project's own test suite, besides."""
    fetched: int = 0
    """Source archives that are downloaded."""
    probes: float = 0.0
    """Rounds of probes of generated environments."""
    real_probes: float = 0.0
    """The same of real projects, whose trees are larger."""
    rollouts: float = 0.0
    """By policies that speak the harness."""
    groups: float = 0.0
    """Tasks attempted at a time: their rollouts share an opening in the sampler's cache."""
    turns: float = 0.0
    """Model turns of those and of single turns."""
    generated: float = 0.0
    """Tokens sampled by them."""
    prefilled: float = 0.0
    """Prompt and tool tokens that the sampler reads."""
    untrained_rollouts: float = 0.0
    """By a policy that has not learnt the harness and fills its turns."""
    untrained_generated: float = 0.0
    computed: float = 0.0
    """Tokens that pass the trainer forwards and backwards, shared openings once."""
    trained: float = 0.0
    """Of them, those with a loss (the head is computed at these)."""
    scored: float = 0.0
    """Tokens scored forwards by folders read with transformers, one policy's reading each."""
    scored_sequences: float = 0.0
    """Sequences of them, read one by one."""
    folder_loads: float = 0.0
    """Times that a policy's folder is loaded for that."""
    steps: int = 0
    """Optimiser steps; each ends with new weights in the sampler, and in RL and distillation a checkpoint."""
    publishes: float = 0.0
    checkpoints: float = 0.0
    kept_checkpoints: int = 0
    trainer_starts: int = 0
    sampler_starts: int = 0
    starts_behind: bool = False
    """The sampler comes up while the stage trains."""
    sequential: float = 0.0
    """Rounds of sampling that wait for one another (steps, chunks of tasks, policies)."""
    kept_tokens: float = 0.0
    """Tokens whose rollouts stay on disk."""

    def as_json(self) -> dict[str, Json]:
        """The counts a reader asks for; the rest is detail of the time."""
        return {
            "environments": self.environments,
            "rollouts": round(self.rollouts + self.untrained_rollouts),
            "tokens_sampled": round(self.generated + self.untrained_generated),
            "tokens_prefilled": round(self.prefilled),
            "tokens_trained": round(self.computed),
            "tokens_with_loss": round(self.trained),
            "steps": self.steps,
        }


def task_counts(recipe: Recipe) -> dict[str, int]:
    """Tasks by split (train, heldout) that the sources make, before any is rejected."""
    counts = {"train": 0, "heldout": 0}
    for source in recipe.tasks.sources:
        if source.kind == "generated":
            counts["train"] += source.train
            counts["heldout"] += source.heldout
        elif source.kind == "folder":
            counts[source.split] += _folders(Path(source.path))
        else:
            counts[source.split] += 1
    return counts


def real_tasks(recipe: Recipe, split: str | None = None) -> int:
    """Tasks that are projects with test suites of their own (pypi-pair, folder), of one split or both."""
    found = 0
    for source in recipe.tasks.sources:
        if source.kind != "generated" and split in (None, source.split):
            found += _folders(Path(source.path)) if source.kind == "folder" else 1
    return found


def rollout_size(recipe: Recipe, assumed: Assumed) -> RolloutSize:
    """The mean rollout: what the recipe says in `runtime.plan`, else assumptions."""
    plan = recipe.runtime.plan
    tokens = plan.rollout_tokens or assumed(known.CONTEXT_SHARE) * recipe.policy.context_tokens
    tokens = float(min(tokens, recipe.policy.context_tokens))
    share = plan.generated_share or assumed(known.GENERATED_SHARE)
    turns = max(1.0, assumed(known.TURNS_SHARE) * recipe.harness.max_turns)
    opening = min(assumed(known.OPENING_SHARE) * tokens, assumed(known.OPENING_TOKENS))
    return RolloutSize(tokens=tokens, generated=share * tokens, turns=turns, opening=opening)


def _folders(path: Path) -> int:
    """Task folders below `path`, counted as prepare-env will find them."""
    if not path.is_dir():
        raise RecipeError(f"task folder {path} does not exist", hint="see tasks.sources in the recipe")
    if (path / "task.toml").is_file():
        return 1
    return sum((folder / "task.toml").is_file() for folder in path.iterdir())
