"""The loop of rl-mixed: one step is a list of named parts, each in a function of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from mimo.algo.batch import TokenPenalty
from mimo.algo.length_penalty import LengthPenalty
from mimo.recipe.models import Recipe
from mimo.rollouts.signal import Signal, SignalRules, learning_signal
from mimo.rollouts.store import RolloutStore
from mimo.stages.base import StageContext, StageResult
from mimo.stages.collect import Collected, collect
from mimo.stages.domain_metrics import domain_metrics, last_pass_rates, mixture_note
from mimo.stages.feed import MixedFeed
from mimo.stages.grade import Grading, read_rubrics
from mimo.stages.graders_view import open_judge
from mimo.stages.hack_audit import HackAudit
from mimo.stages.open_school import open_school
from mimo.stages.rl_metrics import step_metrics, time_metrics
from mimo.stages.rl_records import record_step
from mimo.stages.school import School, weight_version
from mimo.stages.sft import warmed_up
from mimo.stages.signal_counts import count_rollouts, count_signal
from mimo.stages.start import starting_policy
from mimo.stages.tasks import task_store, tasks_of
from mimo.types import Json, Task

STAGE = "rl-mixed"


def train(ctx: StageContext) -> StageResult:
    """Train from the last committed step to the recipe's number of steps."""
    return asyncio.run(_train(ctx))


async def _train(ctx: StageContext) -> StageResult:
    spec = ctx.recipe.rl_mixed
    start = starting_policy(ctx)
    async with open_school(
        ctx, STAGE, start, spec.optimizer, grad_clip=spec.grad_clip, keep=spec.keep_checkpoints
    ) as school:
        tasks = tasks_of(ctx, "train")
        feed = _feed(ctx.recipe, tasks, school)
        mixture = mixture_note(ctx, feed, first=school.step == 0)
        rules, grading = signal_rules(ctx.recipe), open_grading(ctx)
        for step in range(school.step, spec.steps):
            ctx.progress(step, spec.steps, "step", "sampling")
            started = time.monotonic()
            collected = await collect(
                ctx, step, feed, school.sampler, school.house, rules=rules, grade=grading
            )
            sampled_s = time.monotonic() - started - grading.seconds
            signal = learning_signal(collected.accepted, rules) if collected.accepted else None
            _count(ctx, step, collected, signal, rules)
            metrics = await _learn(ctx, school, step, signal)
            record_step(ctx, RolloutStore(ctx.out), step + 1, collected, signal)
            version = weight_version(STAGE, step)
            metrics |= step_metrics(collected, signal, version=version) | grading.metrics()
            step_s = time.monotonic() - started
            metrics |= time_metrics(collected, sampled_s=sampled_s, step_s=step_s)
            metrics["time/grade_share"] = metrics["time/grade_s"] / step_s
            metrics |= domain_metrics(collected, tasks)
            ctx.log(step + 1, metrics)
            if school.checkpoint_due(step + 1, every=spec.checkpoint_every, last=spec.steps):
                school.checkpoint(step + 1, {"cursors": dict[str, Json](feed.cursors)})
                ctx.check_stop()
        school.finish()
    rates = last_pass_rates(RolloutStore(ctx.out), tasks)
    return StageResult(headline=_headline(ctx.out) | rates, notes=(mixture,))


def _feed(recipe: Recipe, tasks: Sequence[Task], school: School) -> MixedFeed:
    """The feed where the last committed step left it."""
    shares = recipe.rl_mixed.shares.model_dump()
    cursors = school.state_ints("cursors") or {"coding": school.state_int("cursor")}  # one, before domains
    return MixedFeed(tasks, shares, seed=recipe.seed, cursors=cursors)


async def _learn(ctx: StageContext, school: School, step: int, signal: Signal | None) -> dict[str, float]:
    """Train on the step's signal and bring the sampler up to date; without one, count it."""
    spec = ctx.recipe.rl_mixed
    if signal is None or not signal.trained:
        school.note_untrained(step + 1, limit=spec.stop_rejected_steps)
        return {"step/trained": 0.0}
    rate = warmed_up(spec.optimizer.learning_rate, step, spec.warmup_steps)
    ctx.progress(step, spec.steps, "step", f"training on {len(signal.trained)} rollouts")
    metrics = await school.train_rl(step + 1, signal.trained, rate)
    metrics |= await school.publish(step + 1)
    return metrics | {"step/trained": 1.0}


def _count(
    ctx: StageContext, step: int, collected: Collected, signal: Signal | None, rules: SignalRules
) -> None:
    if signal is not None:
        count_signal(ctx, step + 1, signal, rules)
    count_rollouts(ctx, step + 1, [item for group in collected.accepted for item in group.finished])
    count_rollouts(ctx, step + 1, [item for _, row in collected.rejected for item in row])
    sampled = len(collected.accepted) + len(collected.rejected)
    if refills := sampled - sum(collected.wanted.values()):
        ctx.count("rejected group replaced", refills, why=f"step {step + 1}")


def _headline(out: Path) -> dict[str, float]:
    """The pass rates of the first and the last step that were sampled."""
    store = RolloutStore(out)
    rates = [sum(row) / len(row) for step in store.steps() if (row := _judged(store, step))]
    return {"pass_rate_first_step": rates[0], "pass_rate_last_step": rates[-1]} if rates else {}


def _judged(store: RolloutStore, step: int) -> list[bool]:
    return [item.verdict.passed for item in store.rollouts(step) if item.verdict is not None]


def open_grading(ctx: StageContext) -> Grading:
    """The audit and the graders of this stage, with the rubrics of synthesize-rubrics where it ran."""
    store = task_store(ctx)
    routed = ctx.inputs.get("synthesize-rubrics")
    return Grading(
        ctx,
        store,
        {} if routed is None else read_rubrics(routed),
        audit=HackAudit(store),
        judge=open_judge(ctx.recipe),
    )


def signal_rules(recipe: Recipe) -> SignalRules:
    """The recipe's numbers for the learning signal."""
    spec, grading = recipe.rl_mixed, recipe.grading
    penalty = spec.length_penalty
    off = LengthPenalty(max=0.0, deadzone=0.0, saturation=1.0, exponent=1.0, percentile=30.0, gate=0.5)
    return SignalRules(
        aggregation=spec.aggregation,
        spread_epsilon=grading.spread_epsilon,
        grs_floor=grading.grs_floor,
        gar_cap=grading.gar_cap,
        gar_keep=grading.gar_below_mean == "keep",
        gar_recentre=grading.gar_recentre,
        length_penalty=off if penalty is None else LengthPenalty(**penalty.model_dump()),
        token_penalty=None if spec.token_penalty is None else TokenPenalty(**spec.token_penalty.model_dump()),
    )
