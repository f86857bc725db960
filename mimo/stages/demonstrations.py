"""Demonstrations: an expert's turns, replayed in a box, kept only if the verifier passes what they leave.

They are recorded by token ids like any rollout (`demonstrations/` in the stage's output, step 0), written
once: a stage that was killed afterwards reads them back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mimo.domains import load_domain
from mimo.errors import StageFailed
from mimo.rollouts.expert import ExpertSampler
from mimo.rollouts.groups import GroupPlan, sample_groups
from mimo.rollouts.house import House
from mimo.rollouts.loop import Attempt, Finished
from mimo.rollouts.store import RolloutStore
from mimo.rollouts.token_log import Payload
from mimo.stages.base import StageContext
from mimo.stages.harness_choice import group_harness
from mimo.stages.tasks import tasks_of
from mimo.types import Rollout, Task


@dataclass(frozen=True, kw_only=True, slots=True)
class Demonstration:
    """A kept demonstration: its record and the tokens of one of its contexts (most have one)."""

    rollout: Rollout
    payload: Payload


async def demonstrations(ctx: StageContext, house: House) -> list[Demonstration]:
    """The kept demonstrations of every training task, made now or read back.

    Raises:
        StageFailed: no demonstration was kept.
    """
    store = RolloutStore(ctx.out / "demonstrations")
    if not store.steps():
        finished = await _replay(ctx, house, tasks_of(ctx, "train"))
        store.write(0, finished)
        _report(ctx, finished)
    contexts = store.contexts(0)
    kept = [
        Demonstration(rollout=rollout, payload=payload)
        for rollout in store.rollouts(0)
        if rollout.verdict is not None and rollout.verdict.passed
        for payload in contexts[rollout.rollout_id]
        if payload.loss_mask.any()
    ]
    if not kept:
        raise StageFailed(
            "no demonstration passed its verifier",
            hint=f"see {store.folder}; only generated tasks have a scripted expert: for tasks of your own "
            "alone, `cold_start: null` leaves this stage out",
        )
    return kept


async def _replay(ctx: StageContext, house: House, tasks: Sequence[Task]) -> list[Finished]:
    """Every demonstration of every task, played through the rollout loop with the expert as the policy."""
    assert ctx.recipe.cold_start is not None
    wanted = ctx.recipe.cold_start.demonstrations_per_task
    plans = [
        GroupPlan(
            group_id=f"demo-{number:05d}",
            task=task,
            harness=group_harness(ctx.recipe, task, f"demo-{number:05d}"),
            step=0,
            size=wanted,
        )
        for number, task in enumerate(tasks)
        if load_domain(task.domain).demonstrates(task)
    ]
    if left_out := len(tasks) - len(plans):
        ctx.count("task without an expert", left_out, why="no demonstration can be scripted for it")

    def expert(attempt: Attempt) -> ExpertSampler:
        domain = load_domain(attempt.task.domain)
        turns = domain.demonstrate(attempt.task, house.store, harness=attempt.harness, seed=attempt.seed)
        return ExpertSampler(turns, house.renderer)

    groups = await sample_groups(
        plans,
        expert,
        replace(house, policy="expert"),
        seed=ctx.recipe.seed,
        on_done=lambda done, total: ctx.progress(done, total, "demonstration"),
    )
    return [finished for group in groups for finished in group]


def _report(ctx: StageContext, finished: Sequence[Finished]) -> None:
    reasons = Counter(_why_dropped(item.rollout) for item in finished)
    for reason, number in reasons.items():
        if reason:
            ctx.count("demonstration dropped", number, why=reason)
    ctx.event("demonstrations", {"replayed": len(finished), "kept": reasons[""]})


def _why_dropped(rollout: Rollout) -> str:
    """Empty for a kept one."""
    if rollout.error is not None:
        return f"{rollout.status}: {rollout.error.type} in {rollout.error.where}: {rollout.error.message}"[
            :200
        ]
    if rollout.verdict is None or not rollout.verdict.passed:
        return f"{rollout.status}: the verifier does not pass it"
    return ""
