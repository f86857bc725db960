"""The work of synthesize-rubrics: attempts by chunks of tasks, then routing, rubrics and flags from disk."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mimo.errors import StageFailed
from mimo.records import to_line
from mimo.rollouts.evaluate import evaluate
from mimo.rollouts.house import House
from mimo.rollouts.loop import Finished
from mimo.rollouts.store import RolloutStore
from mimo.run_dir.files import write_atomic
from mimo.stages.base import StageContext, StageResult
from mimo.stages.engines import open_house
from mimo.stages.graders_view import open_judge
from mimo.stages.harness_choice import evaluation_harness
from mimo.stages.hold import hold
from mimo.stages.open_school import canary_for
from mimo.stages.rl_records import sampled_traces, trace_of
from mimo.stages.routing import Routed, route, stored_attempts
from mimo.stages.school import weight_version
from mimo.stages.signal_counts import count_judge, count_rollouts, count_unjudged
from mimo.stages.start import starting_policy
from mimo.stages.tasks import read_tasks, task_folder, task_store, tasks_of
from mimo.types import Task

if TYPE_CHECKING:
    from mimo.backends.vllm import VllmSampler

STAGE = "synthesize-rubrics"
CHUNK = 16
"""Tasks whose attempts are sampled together and committed together."""


def synthesize_rubrics(ctx: StageContext) -> StageResult:
    """Attempt every chunk of tasks not attempted yet, then route and write rubrics."""
    tasks = tasks_of(ctx, "train")
    chunks = [tasks[at : at + CHUNK] for at in range(0, len(tasks), CHUNK)]
    ctx.plan(len(chunks))
    done = 0 if ctx.resume is None else ctx.resume.step
    if done < len(chunks):
        asyncio.run(_attempt_all(ctx, chunks, done))
    began = time.monotonic()
    counted = ctx.resume is not None and ctx.resume.state.get("published") is not None
    result = _publish(ctx, tasks, counted=counted)
    if not counted:
        ctx.log(len(chunks), {"time/grade_s": time.monotonic() - began})
    ctx.commit(len(chunks), {"published": True})
    return result


async def _attempt_all(ctx: StageContext, chunks: Sequence[Sequence[Task]], done: int) -> None:
    from mimo.backends.vllm import VllmSampler

    start = starting_policy(ctx)
    handle = await asyncio.to_thread(ctx.sampler, start.model_dir)
    sampler = VllmSampler(handle.url, handle.version)
    with open_house(ctx, start.model_dir, start.policy) as house:
        canary = canary_for(ctx, house, start.model_dir)
        version = weight_version(STAGE, 0)
        ctx.event("weights", await hold(ctx, sampler, canary, start.model_dir, version))
        for number, chunk in enumerate(chunks[done:], done + 1):
            began = time.monotonic()
            finished = await _attempts(ctx, sampler, house, chunk, number=number, of=len(chunks))
            _keep(ctx, number, finished, time.monotonic() - began)
    await sampler.close()


async def _attempts(
    ctx: StageContext, sampler: VllmSampler, house: House, tasks: Sequence[Task], *, number: int, of: int
) -> list[Finished]:
    return await evaluate(
        tasks,
        sampler,
        house,
        name="attempt",
        harness=evaluation_harness(ctx.recipe),
        step=number,
        attempts=ctx.recipe.synthesize_rubrics.attempts_per_task,
        seed=ctx.recipe.seed,
        on_done=lambda done, total: ctx.progress(number - 1, of, "chunk", f"attempt {done}/{total}"),
    )


def _keep(ctx: StageContext, number: int, finished: Sequence[Finished], seconds: float) -> None:
    """Write a chunk's attempts, trace a few, commit."""
    RolloutStore(ctx.out).write(number, finished)
    for item in sampled_traces(finished, ctx.recipe.tracking.traces_per_step):
        ctx.trace(number, trace_of(item))
    judged = [item.rollout.verdict for item in finished if item.rollout.verdict is not None]
    rate = sum(verdict.passed for verdict in judged) / max(1, len(judged))
    ctx.log(number, {"attempts/pass_rate": rate, "time/rollout_s": seconds})
    count_rollouts(ctx, number, finished)
    count_unjudged(ctx, finished, "attempts")
    ctx.commit(number, {})
    ctx.check_stop()


def _publish(ctx: StageContext, tasks: Sequence[Task], *, counted: bool) -> StageResult:
    """Route and write; `counted`: an earlier start has counted what is left out."""
    attempts: dict[str, list[Finished]] = defaultdict(list)
    for item in stored_attempts(RolloutStore(ctx.out)):
        attempts[item.rollout.task_id].append(item)
    judge = open_judge(ctx.recipe)
    store = task_store(ctx)
    routed = {
        task.task_id: route(ctx.recipe, store, task, attempts[task.task_id], judge=judge) for task in tasks
    }
    if judge is not None:
        judge.close()
        if not counted:
            count_judge(ctx, judge.failures, Counter())
    everything = [
        routed[task.task_id].task if task.task_id in routed else task for task in read_tasks(task_folder(ctx))
    ]
    rows = list(routed.values())
    write_atomic(ctx.out / "tasks.jsonl", b"".join(map(to_line, everything)))
    write_atomic(ctx.out / "rubrics.jsonl", b"".join(to_line(r.rubric) for r in rows if r.rubric is not None))
    write_atomic(ctx.out / "flags.jsonl", b"".join(to_line(flag) for row in rows for flag in row.flags))
    if not counted:
        _count(ctx, rows)
    if all(row.task.pass_rate is None for row in rows):
        raise StageFailed("no attempt has a verdict", hint="see the errors in rollouts/")
    return _result(rows)


def _count(ctx: StageContext, rows: Sequence[Routed]) -> None:
    rates = [row.task.pass_rate for row in rows]
    for what, number in (
        ("task without a judged attempt", sum(rate is None for rate in rates)),
        ("task that no attempt solves", sum(rate == 0 for rate in rates)),
    ):
        if number:
            ctx.count(what, number, why="routed to gar")
    for row in rows:
        if row.no_rubric is not None:
            ctx.count("task without a rubric", why=row.no_rubric)
        for flag in row.flags:
            ctx.count(f"attempt {flag.kind}", why=f"{flag.task_id}: {flag.evidence[0]}"[:200])


def _result(rows: Sequence[Routed]) -> StageResult:
    rates = [row.task.pass_rate for row in rows if row.task.pass_rate is not None]
    rubrics = [row.rubric for row in rows if row.rubric is not None]
    grs = sum(row.task.routing == "grs" for row in rows)
    numbers = {
        "pass_rate": sum(rates) / len(rates),
        "tasks_grs": float(grs),
        "tasks_gar": float(len(rows) - grs),
        "tasks_unsolved": float(sum(rate == 0 for rate in rates)),
        "rubrics": float(len(rubrics)),
        "flags": float(sum(len(row.flags) for row in rows)),
    }
    lost = sum(row.no_rubric is not None for row in rows)
    notes = (f"{grs} tasks to GRS with a rubric, {len(rows) - grs} to GAR; {lost} without a contrast",)
    return StageResult(headline=numbers, notes=notes)
