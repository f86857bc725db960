"""Held-out tasks in held-out harnesses: how far what was learnt depends on how it was learnt to be said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict

from mimo.backends.base import Sampler
from mimo.domains.base import share_kind
from mimo.harnesses import draw_harness, supported
from mimo.rollouts.evaluate import evaluate, rates_by
from mimo.rollouts.house import House
from mimo.rollouts.loop import Finished
from mimo.stages.base import StageContext
from mimo.types import Rollout, Task

LABEL = "heldout-harness"
"""In place of the split, in metrics and in the report."""


async def evaluate_heldout_harnesses(
    ctx: StageContext,
    tasks: Sequence[Task],
    sampler: Sampler,
    house: House,
    *,
    name: str,
    step: int,
    attempts: int,
    on_done: Callable[[int, int], None],
) -> list[Finished]:
    """`attempts` rollouts of every held-out task that such a harness supports; the others are counted."""
    names = ctx.recipe.audit.heldout_harnesses
    if not names:
        return []
    mine = [task for task in tasks if task.split == "heldout" and supported(names, task.domain)]
    if left := sum(task.split == "heldout" for task in tasks) - len(mine):
        ctx.count(
            "task without a held-out harness", left, why="none of audit.heldout_harnesses is for its domain"
        )
    return await evaluate(
        mine,
        sampler,
        house,
        name=f"{name}-{LABEL}",
        harness=lambda task: draw_harness(names, task.domain, ctx.recipe.seed, task.task_id),
        step=step,
        attempts=attempts,
        seed=ctx.recipe.seed,
        on_done=on_done,
    )


def apart(ctx: StageContext, rollouts: Sequence[Rollout]) -> tuple[list[Rollout], list[Rollout]]:
    """The rollouts in the harnesses of training, and those in held-out ones."""
    names = set(ctx.recipe.audit.heldout_harnesses)
    return (
        [item for item in rollouts if item.harness not in names],
        [item for item in rollouts if item.harness in names],
    )


def heldout_harness_rates(
    rollouts: Sequence[Rollout], tasks: Sequence[Task], *, confidence: float
) -> dict[str, dict[str, float]]:
    """`heldout-harness/KIND` -> pass rate, over rollouts in held-out harnesses."""
    label = {task.task_id: f"{LABEL}/{share_kind(task)}" for task in tasks}
    rates = rates_by(rollouts, label, confidence=confidence)
    return {name: asdict(rate) for name, rate in rates.items() if rate.mean is not None}
