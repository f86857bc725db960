"""The policy a training stage starts from: the newest checkpoint upstream, or the recipe's own weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mimo.errors import StageFailed
from mimo.stages.base import StageContext
from mimo.stages.engines import base_policy


@dataclass(frozen=True, kw_only=True, slots=True)
class StartingPolicy:
    """A servable folder and the id that records carry as `policy`."""

    model_dir: Path
    policy: str


def starting_policy(ctx: StageContext) -> StartingPolicy:
    """Of the cold start where there is one, else the base policy."""
    if "cold-start" in ctx.inputs:
        return checkpoint_policy(ctx.inputs["cold-start"], "cold-start")
    return StartingPolicy(model_dir=base_policy(ctx), policy="base")


def checkpoint_policy(output: Path, stage: str) -> StartingPolicy:
    """The newest whole checkpoint of a stage's output.

    Raises:
        StageFailed: there is none, or the newest is damaged (a published output is never repaired silently).
    """
    from mimo.training.checkpoint import MODEL, newest_checkpoint

    damage: list[str] = []
    found = newest_checkpoint(
        output / "checkpoints", contents="model", on_damaged=lambda _, why: damage.append(why)
    )
    if damage or found is None:
        raise StageFailed(
            f"{output}: no usable checkpoint of {stage}: {'; '.join(damage) or 'the folder has none'}",
            hint=f"make it again: the same command with `--from {stage}`",
        )
    folder, record = found
    return StartingPolicy(model_dir=folder / MODEL, policy=f"{stage}:{record.step}")
