"""The loop of cold-start: demonstrations, supervised steps, evaluations now and then."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence

from mimo.backends.base import LossSpec
from mimo.recipe.training_sections import ColdStart as ColdStartSettings
from mimo.rollouts.evaluate import evaluate, outcomes
from mimo.rollouts.rates import pass_rate
from mimo.rollouts.store import RolloutStore
from mimo.stages.base import StageContext, StageResult
from mimo.stages.correction_turns import Corrected, numbers, read_rows
from mimo.stages.demonstrations import Demonstration, demonstrations
from mimo.stages.engines import base_policy, open_house
from mimo.stages.harness_choice import evaluation_harness
from mimo.stages.open_school import open_school
from mimo.stages.rl_records import sampled_traces, trace_of
from mimo.stages.school import School
from mimo.stages.sft import sft_batch, warmed_up
from mimo.stages.signal_counts import count_rollouts, count_unjudged
from mimo.stages.start import StartingPolicy
from mimo.stages.tasks import tasks_of
from mimo.types import Task

STAGE = "cold-start"


def cold_start(ctx: StageContext, spec: ColdStartSettings) -> StageResult:
    """Replay the demonstrations, train, publish."""
    return asyncio.run(_cold_start(ctx, spec))


async def _cold_start(ctx: StageContext, spec: ColdStartSettings) -> StageResult:
    start = StartingPolicy(model_dir=await asyncio.to_thread(base_policy, ctx), policy="base")
    warm = asyncio.create_task(asyncio.to_thread(ctx.sampler, start.model_dir))
    with open_house(ctx, start.model_dir, start.policy) as house:
        demos = await demonstrations(ctx, house)
    async with open_school(
        ctx, STAGE, start, spec.optimizer, grad_clip=spec.grad_clip, keep=2, server=warm, publish=False
    ) as school:
        rate = await _train(ctx, spec, school, demos)
        school.finish()
    headline = _taught(ctx, demos) | ({} if rate is None else {"pass_rate": rate})
    return StageResult(headline=headline, notes=(_note(len(demos), read_rows(ctx.out / "demonstrations")),))


def _taught(ctx: StageContext, demos: Sequence[Demonstration]) -> dict[str, float]:
    """What the demonstrations are: their number, and what became of the mistakes in them."""
    return {"demonstrations": float(len(demos)), **numbers(read_rows(ctx.out / "demonstrations"))}


def _note(demos: int, rows: Sequence[Corrected]) -> str:
    """A line of the run's summary."""
    kinds = Counter(row.kind for row in rows if row.left_out is None)
    recorded = sum(row.source is not None for row in rows if row.left_out is None)
    named = ", ".join(f"{kind} {number}" for kind, number in sorted(kinds.items()))
    held = f", {sum(kinds.values())} hold a corrected mistake ({named})" if kinds else ""
    held += f", {recorded} of them from the corrections file" if recorded else ""
    left = sum(row.left_out is not None for row in rows)
    return f"{demos} demonstrations kept{held}" + (f"; {left} mistakes left out" if left else "")


async def _train(
    ctx: StageContext, spec: ColdStartSettings, school: School, demos: Sequence[Demonstration]
) -> float | None:
    """Train to the last step or into the band; the pass rate measured last, if one was."""
    rate: float | None = None
    for step in range(school.step, spec.steps):
        sequences = sft_batch(demos, step, size=spec.batch_rollouts, seed=ctx.recipe.seed)
        learning_rate = warmed_up(spec.optimizer.learning_rate, step, spec.warmup_steps)
        metrics = await school.train(step + 1, sequences, LossSpec(kind="sft"), learning_rate)
        ctx.progress(step + 1, spec.steps, "step", f"loss {metrics['train/loss']:.3f}")
        if step == 0:
            metrics |= {f"demonstrations/{name}": value for name, value in _taught(ctx, demos).items()}
        stop = False
        if _evaluates(spec, step + 1):
            metrics |= await school.publish(step + 1)
            began = time.monotonic()
            rate = await _pass_rate(ctx, spec, school, step + 1)
            metrics |= {"eval/pass_rate": rate, "time/rollout_s": time.monotonic() - began}
            stop = spec.stop_pass_rate is not None and rate >= spec.stop_pass_rate.low
        elif step + 1 == spec.steps:
            metrics |= await school.publish(step + 1)
        ctx.log(step + 1, metrics)
        if stop:
            _note_band(ctx, spec, rate, step + 1)
            ctx.plan(step + 1)
        if stop or school.checkpoint_due(step + 1, every=spec.checkpoint_every, last=spec.steps):
            school.checkpoint(step + 1, {})
            ctx.check_stop()
        if stop:
            break
    return rate


def _evaluates(spec: ColdStartSettings, done: int) -> bool:
    band = spec.stop_pass_rate
    if band is not None and done >= band.first_step and (done - band.first_step) % band.every_steps == 0:
        return True
    return done == spec.steps and spec.eval_rollouts > 0


async def _pass_rate(ctx: StageContext, spec: ColdStartSettings, school: School, step: int) -> float:
    """The pass rate over training tasks of the weights just published; the rollouts stay in the store."""
    number = spec.eval_rollouts if spec.stop_pass_rate is None else spec.stop_pass_rate.rollouts
    tasks = tasks_of(ctx, "train")
    chosen = _spread(tasks, number)
    finished = await evaluate(
        chosen,
        school.sampler,
        school.house,
        name="eval",
        harness=evaluation_harness(ctx.recipe),
        step=step,
        attempts=max(1, number // len(chosen)),
        seed=ctx.recipe.seed,
        on_done=lambda done, total: ctx.progress(step, spec.steps, "step", f"evaluating {done}/{total}"),
    )
    RolloutStore(ctx.out).write(step, finished)
    for item in sampled_traces(finished, ctx.recipe.tracking.traces_per_step):
        ctx.trace(step, trace_of(item))
    rate = pass_rate(outcomes(item.rollout for item in finished), confidence=0.95)
    count_rollouts(ctx, step, finished)
    count_unjudged(ctx, finished, f"step {step}")
    ctx.event("evaluation", {"step": step, "pass_rate": rate.mean, "low": rate.low, "high": rate.high})
    return rate.mean or 0.0


def _spread(tasks: Sequence[Task], number: int) -> list[Task]:
    """At most `number` tasks, evenly spaced over the set."""
    if len(tasks) <= number:
        return list(tasks)
    return [tasks[place * len(tasks) // number] for place in range(number)]


def _note_band(ctx: StageContext, spec: ColdStartSettings, rate: float | None, step: int) -> None:
    assert spec.stop_pass_rate is not None
    assert rate is not None
    ctx.event("stopped in the band", {"step": step, "pass_rate": rate})
    if rate > spec.stop_pass_rate.high:
        ctx.count(
            "cold start went past its band",
            why=f"pass rate {rate:.2f} at step {step}, band up to {spec.stop_pass_rate.high}",
        )
