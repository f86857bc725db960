"""The loop of mopd2: sample, have the teachers score, learn, record; measured before and after."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mimo.algo.length_penalty import LengthPenalty
from mimo.domains.base import share_kind
from mimo.errors import StageFailed
from mimo.recipe.models import Recipe
from mimo.rollouts.signal import SignalRules
from mimo.rollouts.store import RolloutStore
from mimo.stages.base import StageContext, StageResult
from mimo.stages.feed import TaskFeed
from mimo.stages.mopd2_evaluation import FixedContexts
from mimo.stages.mopd2_samples import KINDS, TEACHER_OF, Sample, gather, histories
from mimo.stages.mopd2_signal import (
    DistilRules,
    DistilSignal,
    distil_signal,
    has_tokens,
)
from mimo.stages.open_school import open_school
from mimo.stages.rl_loop import signal_rules
from mimo.stages.rl_records import sampled_traces, trace_of
from mimo.stages.rl_sequences import rl_loss, rl_sequences
from mimo.stages.school import School
from mimo.stages.signal_counts import count_clipped, count_rollouts
from mimo.stages.start import StartingPolicy, checkpoint_policy, starting_policy
from mimo.stages.tasks import tasks_of
from mimo.stages.teachers import score_samples
from mimo.types import Task

STAGE = "mopd2"
TEMPERATURE = 1.0
"""Of student and teachers, with top-p 1, whatever the recipe samples with: the reverse KL is that of the
distributions themselves (METHOD 10.3)."""


def distil(ctx: StageContext) -> StageResult:
    """Train from the last committed step to the recipe's number of steps."""
    if "rl-mixed" not in ctx.inputs:
        raise StageFailed(
            "mopd2 has no teacher: rl-mixed is not in this run", hint="put rl-mixed into `stages:`"
        )
    return asyncio.run(_distil(ctx))


async def _distil(ctx: StageContext) -> StageResult:
    spec, rl = ctx.recipe.mopd2, ctx.recipe.rl_mixed
    teachers = {stage: checkpoint_policy(ctx.inputs[stage], stage).model_dir for stage in _teachers(ctx)}
    optimizer = rl.optimizer.model_copy(update={"learning_rate": spec.learning_rate})
    tasks = tasks_of(ctx, "train")
    sources = histories(ctx)
    async with open_school(
        ctx, STAGE, _student(ctx), optimizer, grad_clip=rl.grad_clip, keep=rl.keep_checkpoints
    ) as school:
        school.house.sizes = replace(school.house.sizes, temperature=TEMPERATURE, top_p=1.0)
        fixed = FixedContexts(ctx, sources.evaluation, teachers)
        await fixed.open(school)
        feed = TaskFeed(tasks, seed=ctx.recipe.seed, cursor=school.state_int("cursor"))
        rules = distil_rules(ctx.recipe, tasks)
        if school.step == 0 and not any(_shares(ctx.recipe, tasks).values()):
            ctx.count("domains weighed alike", why="rl_mixed.shares gives none of them anything")
        for step in range(school.step, spec.steps):
            started = time.monotonic()
            samples = await gather(
                ctx,
                step,
                feed,
                school.sampler,
                school.house,
                sources=sources.train,
                rules=_outcome_rules(ctx.recipe),
            )
            sampled_s = time.monotonic() - started
            metrics = {"time/rollout_s": sampled_s} | _sample_metrics(ctx, samples)
            metrics |= await _learn(ctx, school, step, samples, teachers=teachers, rules=rules)
            if step + 1 == spec.steps:
                metrics |= _named(await fixed.measure(school, "last"))
            ctx.log(step + 1, metrics | {"time/step_s": time.monotonic() - started})
            school.checkpoint(step + 1, {"cursor": feed.cursor})
            ctx.check_stop()
        school.finish()
    return _result(fixed)


def _teachers(ctx: StageContext) -> list[str]:
    return [stage for stage in sorted(set(TEACHER_OF.values())) if stage in ctx.inputs]


def _student(ctx: StageContext) -> StartingPolicy:
    if ctx.recipe.mopd2.student == "rl-mixed":
        return checkpoint_policy(ctx.inputs["rl-mixed"], "rl-mixed")
    return starting_policy(ctx)


async def _learn(
    ctx: StageContext,
    school: School,
    step: int,
    samples: Sequence[Sample],
    *,
    teachers: Mapping[str, Path],
    rules: DistilRules,
) -> dict[str, float]:
    """Score, train, publish, record; the step's metrics."""
    began = time.monotonic()
    good = [sample for sample in samples if has_tokens(sample)]
    async with school.sampler_asleep():
        scored = await asyncio.to_thread(
            score_samples, ctx, good, school.published, teachers, temperature=TEMPERATURE
        )
    scored_s = time.monotonic() - began
    signal = distil_signal(scored, rules)
    if signal.trained:
        loss, rate = rl_loss(ctx.recipe, temperature=TEMPERATURE), ctx.recipe.mopd2.learning_rate
        metrics = await school.train(step + 1, rl_sequences(signal.trained), loss, rate)
        metrics |= await school.publish(step + 1)
    else:
        school.note_untrained(step + 1, limit=None)
        metrics = {}
    count_clipped(ctx, step + 1, signal.metrics)
    count_rollouts(ctx, step + 1, [sample.finished for sample in samples])
    _record(ctx, step + 1, samples, signal)
    return metrics | signal.metrics | {"time/teacher_s": scored_s}


def _record(ctx: StageContext, step: int, samples: Sequence[Sample], signal: DistilSignal) -> None:
    """Every sample of the step, those without tokens too; a few traces of the student's rollouts."""
    with_teacher = {item.rollout.rollout_id: item for item in signal.finished}
    rows = [with_teacher.get(item.finished.rollout.rollout_id, item.finished) for item in samples]
    RolloutStore(ctx.out).write(step, rows)
    for item in sampled_traces(rows, ctx.recipe.tracking.traces_per_step):
        ctx.trace(step, trace_of(item))


def _sample_metrics(ctx: StageContext, samples: Sequence[Sample]) -> dict[str, float]:
    """What was sampled, counted before anything is left out; failures are said."""
    rollouts = [sample.finished.rollout for sample in samples]
    for rollout in rollouts:
        if rollout.error is not None:
            ctx.count("sample masked", why=f"{rollout.status}: {rollout.error.type} in {rollout.error.where}")
    if empty := sum(sample.finished.rollout.error is None and not has_tokens(sample) for sample in samples):
        ctx.count("sample without tokens", empty, why="nothing that a teacher could score")
    if later := sum(len(sample.finished.branches) for sample in samples):
        ctx.count(
            "context not distilled", later, why="only a rollout's first context is; see docs/harnesses.md"
        )
    judged = [rollout.verdict.passed for rollout in rollouts if rollout.verdict is not None]
    metrics = {
        "rollouts/total": float(len(rollouts)),
        "tokens/generated": float(sum(rollout.generated_tokens for rollout in rollouts)),
    }
    return metrics | ({"rollouts/pass_rate_all": sum(judged) / len(judged)} if judged else {})


def distil_rules(recipe: Recipe, tasks: Sequence[Task]) -> DistilRules:
    """The recipe's numbers; rho is `rl_mixed.shares` over the domains that the task set has.

    A domain has the shares of all its kinds of task that the set holds (agent: agent and context).
    """
    domains = _shares(recipe, tasks)
    total = sum(domains.values())
    weights = recipe.mopd2.weights.model_dump()
    return DistilRules(
        kinds={kind: float(weights[kind]) for kind in KINDS},
        domains={name: share / total if total else 1 / len(domains) for name, share in domains.items()},
        clip=recipe.mopd2.clip,
        alpha=recipe.mopd2.alpha,
    )


def _shares(recipe: Recipe, tasks: Sequence[Task]) -> dict[str, float]:
    """The shares of each domain of the task set, added up over its kinds of task."""
    shares = recipe.rl_mixed.shares.model_dump()
    kinds = {share_kind(task): task.domain for task in tasks}
    domains: dict[str, float] = {}
    for kind, domain in kinds.items():
        domains[domain] = domains.get(domain, 0.0) + float(shares[kind])
    return domains


def _outcome_rules(recipe: Recipe) -> SignalRules:
    """Plain group-relative outcomes: no length and no token penalty."""
    off = LengthPenalty(max=0.0, deadzone=0.0, saturation=1.0, exponent=1.0, percentile=30.0, gate=0.5)
    return replace(signal_rules(recipe), length_penalty=off, token_penalty=None)


def _named(distances: Mapping[str, float]) -> dict[str, float]:
    return {f"fixed/reverse_kl/{name}": value for name, value in distances.items()}


def _result(fixed: FixedContexts) -> StageResult:
    first, last = fixed.read("first") or {}, fixed.read("last") or {}
    headline = {
        f"reverse_kl_{when}/{name}": row[name]
        for name in last
        for when, row in (("first", first), ("last", last))
        if name in row
    }
    notes = tuple(
        f"{name}: reverse KL in fixed contexts {first[name]:.5f} -> {last[name]:.5f}"
        for name in last
        if name in first
    )
    return StageResult(headline=headline, notes=notes)
