"""Demonstrations: an expert's turns, replayed in a box, kept only if the verifier passes what they leave.

Some hold a mistake and its correction (`mimo.stages.correction_turns`). All are recorded by token ids like
any rollout (`demonstrations/` in the stage's output, step 0), written once: a stage that was killed
afterwards reads them back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mimo.domains import load_domain
from mimo.errors import StageFailed
from mimo.recipe.environment import resolve_env
from mimo.rollouts.expert import ExpertSampler
from mimo.rollouts.groups import GroupPlan, sample_groups
from mimo.rollouts.house import House
from mimo.rollouts.loop import Attempt, Finished
from mimo.rollouts.store import RolloutStore
from mimo.rollouts.token_log import Payload
from mimo.stages.base import StageContext
from mimo.stages.correction_turns import Corrected, Corrections, numbers, read_rows, write_rows
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
        RecipeError: the corrections file is bad, or of other tasks.
    """
    store = RolloutStore(ctx.out / "demonstrations")
    tasks = tasks_of(ctx, "train")
    if not store.steps():
        finished, rows = await _replay(ctx, house, tasks)
        write_rows(store.folder, rows)
        store.write(0, finished)
    if ctx.resume is None:  # what an earlier start counted is gone unless it committed
        _report(ctx, list(store.rollouts(0)), read_rows(store.folder), tasks)
    kept = kept_demonstrations(store.folder)
    if not kept:
        raise StageFailed(
            "no demonstration passed its verifier",
            hint=f"see {store.folder}; only generated tasks have a scripted expert: for tasks of your own "
            "alone, `cold_start: null` leaves this stage out",
        )
    return kept


def kept_demonstrations(folder: Path) -> list[Demonstration]:
    """The recorded demonstrations that are trained on: the verifier passes them, and no correction failed."""
    store = RolloutStore(folder)
    contexts = store.contexts(0)
    failed = {row.rollout_id for row in read_rows(folder) if row.left_out is not None}
    return [
        Demonstration(rollout=rollout, payload=payload)
        for rollout in store.rollouts(0)
        if rollout.verdict is not None and rollout.verdict.passed and rollout.rollout_id not in failed
        for payload in contexts[rollout.rollout_id]
        if payload.loss_mask.any()
    ]


async def _replay(
    ctx: StageContext, house: House, tasks: Sequence[Task]
) -> tuple[list[Finished], list[Corrected]]:
    """Every demonstration of every task, played through the rollout loop with the expert as the policy."""
    spec = ctx.recipe.cold_start
    assert spec is not None
    plans = _plans(ctx, tasks, spec.demonstrations_per_task)
    corrections = Corrections(house, share=spec.correction_share, seed=ctx.recipe.seed)
    if spec.corrections is not None:
        most = _at_most(sum(plan.size for plan in plans), spec.corrections_max_share)
        plans += corrections.recorded(
            Path(resolve_env(spec.corrections)), tasks, harnesses=ctx.recipe.harness.names, most=most
        )

    def expert(attempt: Attempt) -> ExpertSampler:
        domain = load_domain(attempt.task.domain)
        turns = corrections.script(attempt.rollout_id) or corrections.own(attempt)
        if turns is None:
            turns = domain.demonstrate(attempt.task, house.store, harness=attempt.harness, seed=attempt.seed)
        return ExpertSampler(turns, house.renderer)

    groups = await sample_groups(
        plans,
        expert,
        replace(house, policy="expert"),
        seed=ctx.recipe.seed,
        on_done=lambda done, total: ctx.progress(done, total, "demonstration"),
    )
    finished = corrections.judged(item for group in groups for item in group)
    return finished, corrections.rows


def _plans(ctx: StageContext, tasks: Sequence[Task], wanted: int) -> list[GroupPlan]:
    return [
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


def _at_most(demonstrations: int, share: float) -> int:
    """How many further ones make up `share` of the whole."""
    return int(demonstrations * share / (1.0 - share))


def _report(
    ctx: StageContext, replayed: Sequence[Rollout], rows: Sequence[Corrected], tasks: Sequence[Task]
) -> None:
    if left_out := sum(not load_domain(task.domain).demonstrates(task) for task in tasks):
        ctx.count("task without an expert", left_out, why="no demonstration can be scripted for it")
    corrected = {row.rollout_id for row in rows}
    reasons = Counter(_why_dropped(item) for item in replayed if item.rollout_id not in corrected)
    for reason, number in reasons.items():
        if reason:
            ctx.count("demonstration dropped", number, why=reason)
    for (what, why), number in Counter(map(_left_out, rows)).items():
        if what:
            ctx.count(what, number, why=why)
    kept = reasons[""] + sum(row.left_out is None for row in rows)
    ctx.event("demonstrations", {"replayed": len(replayed), "kept": kept, **numbers(rows)})


def _left_out(row: Corrected) -> tuple[str, str]:
    """What to count and why; empty for a kept correction."""
    if row.left_out is None:
        return "", ""
    whose = "own" if row.source is None else "recorded"
    how = "not played" if row.rollout_id is None else "dropped"
    return f"{whose} mistake {how}", f"{row.kind[:40]}: {row.left_out}"[:200]


def _why_dropped(rollout: Rollout) -> str:
    """Empty for a kept one."""
    if rollout.error is not None:
        return f"{rollout.status}: {rollout.error.type} in {rollout.error.where}: {rollout.error.message}"[
            :200
        ]
    if rollout.verdict is None or not rollout.verdict.passed:
        return f"{rollout.status}: the verifier does not pass it"
    return ""
