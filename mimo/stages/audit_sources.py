"""Where a run's trajectories lie: every stage's rollout stores, in the stages' order.

Demonstrations are left out (an expert that knows the answer wrote them, no policy), and so are planted
controls: rollouts whose `policy` is PLANTED show that the audit works and say nothing about a policy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mimo.rollouts.store import RolloutStore
from mimo.run_dir import manifest as manifests
from mimo.stages.base import StageContext
from mimo.types import Rollout

OWN = "audit"
"""The audit's own evaluation rollouts, of every policy."""
PLANTED = "planted"
SAMPLING_STAGES = ("cold-start", "synthesize-rubrics", "rl-mixed", "mopd2")
EVALUATION = "evaluation"
"""Folder of a stage's output for rollouts that it only measured with."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """The trajectories of one stage: its stores, and the run that made them (None where it is not known)."""

    stage: str
    stores: tuple[RolloutStore, ...]
    run: str | None

    def rollouts(self) -> Iterator[Rollout]:
        """Every rollout, in the order they were written."""
        for store in self.stores:
            for step in store.steps():
                yield from store.rollouts(step)


def sources(ctx: StageContext) -> list[Source]:
    """The stages that sample, in their order; the audit's own rollouts come last."""
    found = [
        Source(stage=stage, stores=_stores(ctx.inputs[stage]), run=_made_by(ctx.inputs[stage]))
        for stage in SAMPLING_STAGES
        if stage in ctx.inputs
    ]
    own = Source(stage=OWN, stores=_stores(ctx.out), run=_own_run(ctx.label))
    return [*found, own]


def _stores(output: Path) -> tuple[RolloutStore, ...]:
    return RolloutStore(output), RolloutStore(output / EVALUATION)


def _made_by(output: Path) -> str | None:
    manifest = manifests.read(output)
    return None if manifest is None else manifest.run


def _own_run(label: str) -> str | None:
    """The run in a stage's label (`RUN-audit-PID`)."""
    run, found, _ = label.rpartition(f"-{OWN}-")
    return run if found else None


def policy_of(rollout: Rollout) -> str:
    """The policy's name without its step: `rl-mixed` of `rl-mixed:7`."""
    return rollout.policy.partition(":")[0]
