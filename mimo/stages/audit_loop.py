"""The work of the audit that samples: evaluate each policy not evaluated yet."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

from mimo.domains.base import share_kind
from mimo.recipe.sections import Audit as AuditSettings
from mimo.rollouts.evaluate import evaluate, rates_by
from mimo.rollouts.groups import first_error
from mimo.rollouts.house import House
from mimo.rollouts.loop import Finished
from mimo.rollouts.store import RolloutStore
from mimo.stages.audit import TRAINED
from mimo.stages.audit_conclusion import conclude
from mimo.stages.audit_sources import sources
from mimo.stages.base import StageContext, StageResult
from mimo.stages.engines import base_policy, open_house
from mimo.stages.harness_choice import evaluation_harness
from mimo.stages.heldout_harnesses import apart, evaluate_heldout_harnesses, heldout_harness_rates
from mimo.stages.open_school import canary_for
from mimo.stages.rl_records import sampled_traces, trace_of
from mimo.stages.school import weight_version
from mimo.stages.signal_counts import count_rollouts, count_unjudged
from mimo.stages.start import StartingPolicy, checkpoint_policy
from mimo.stages.tasks import read_tasks, task_folder
from mimo.types import Json, Rollout, Task

if TYPE_CHECKING:
    from mimo.backends.vllm import VllmSampler
    from mimo.training.canary import Canary

STAGE = "audit"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Audited:
    """One policy to evaluate: the name it has in the report, its weights, its place."""

    name: str
    policy: StartingPolicy
    place: int


def audit(ctx: StageContext) -> StageResult:
    """Evaluate each policy not evaluated yet, then conclude."""
    policies, found = _policies(ctx), sources(ctx)
    ctx.plan(len(policies) + len(found) + 1)
    done = 0 if ctx.resume is None else ctx.resume.step
    if done < len(policies):
        asyncio.run(_evaluate_all(ctx, policies[done:]))
    store = RolloutStore(ctx.out)
    rollouts = {entry.name: list(store.rollouts(entry.place + 1)) for entry in policies}
    rates = {name: cast(Json, _rates(ctx, rows)) for name, rows in rollouts.items()}
    return conclude(ctx, rollouts, found, rates)


def _policies(ctx: StageContext) -> list[_Audited]:
    rows = [("base", StartingPolicy(model_dir=base_policy(ctx), policy="base"))]
    rows += [(stage, checkpoint_policy(ctx.inputs[stage], stage)) for stage in TRAINED if stage in ctx.inputs]
    return [_Audited(name=name, policy=policy, place=place) for place, (name, policy) in enumerate(rows)]


async def _evaluate_all(ctx: StageContext, policies: Sequence[_Audited]) -> None:
    from mimo.backends.vllm import VllmSampler

    first = policies[0].policy.model_dir
    handle = await asyncio.to_thread(ctx.sampler, first)
    sampler = VllmSampler(handle.url, handle.version, reference_dir=first)
    with open_house(ctx, first, policies[0].policy.policy) as house:
        canary = canary_for(ctx, house, first)
        for entry in policies:
            await _hold(ctx, sampler, canary, entry)
            house.policy = entry.policy.policy
            await _evaluate(ctx, sampler, house, entry)
    await sampler.close()


async def _hold(ctx: StageContext, sampler: VllmSampler, canary: Canary, entry: _Audited) -> None:
    """Put the policy's weights into the sampler; the canary's numbers go to the metrics."""
    from mimo.training.canary import update_engine
    from mimo.training.reference import FolderScorer

    folder = entry.policy.model_dir
    scorer = FolderScorer(folder, ctx.recipe.policy.dtype)
    version = weight_version(STAGE, entry.place)
    if canary.bound is None:
        found = await canary.start(scorer, sampler, folder, version)
    else:
        await update_engine(sampler, folder, version)
        found = canary.judge(await canary.measure(scorer, sampler), version)
    ctx.sampler_holds(folder, version)
    assert canary.bound is not None
    numbers = {"canary/mean": found.mean, "canary/max": found.maximum, "canary/bound": canary.bound}
    ctx.log(entry.place + 1, numbers)


async def _evaluate(ctx: StageContext, sampler: VllmSampler, house: House, entry: _Audited) -> None:
    step = entry.place + 1
    finished = await _sample(ctx, sampler, house, entry)
    RolloutStore(ctx.out).write(step, finished)
    for item in sampled_traces(finished, ctx.recipe.tracking.traces_per_step):
        ctx.trace(step, trace_of(item))
    rates = _rates(ctx, [item.rollout for item in finished])
    labelled = rates["split"] | rates.get("domain", {})
    ctx.log(step, {f"pass_rate/{label}": row["mean"] for label, row in labelled.items()})
    count_rollouts(ctx, step, finished)
    count_unjudged(ctx, finished, entry.name)
    ctx.commit(step, {})
    ctx.check_stop()


async def _sample(ctx: StageContext, sampler: VllmSampler, house: House, entry: _Audited) -> list[Finished]:
    """Held-out tasks, training tasks, held-out harnesses: at a time, as the engine is faster with more."""
    spec, step = ctx.recipe.audit, entry.place + 1
    tasks, told = read_tasks(task_folder(ctx)), _Told(ctx, entry)
    parts = []
    try:
        async with asyncio.TaskGroup() as group:
            for split, wanted in (
                ("heldout", spec.heldout_rollouts_per_task),
                ("train", spec.train_rollouts_per_task),
            ):
                attempts = _attempts(spec, entry, wanted)
                mine = [task for task in tasks if task.split == split]
                if not mine or attempts == 0:
                    why = f"audit.{split}_rollouts_per_task"
                    ctx.count(f"{split} tasks not evaluated", len(mine), why=why)
                    continue
                work = evaluate(
                    mine,
                    sampler,
                    house,
                    name=f"{entry.name}-{split}",
                    harness=evaluation_harness(ctx.recipe),
                    step=step,
                    attempts=attempts,
                    seed=ctx.recipe.seed,
                    on_done=partial(told, split),
                )
                parts.append(group.create_task(work))
            elsewhere = evaluate_heldout_harnesses(
                ctx,
                tasks,
                sampler,
                house,
                name=entry.name,
                step=step,
                attempts=_attempts(spec, entry, spec.heldout_rollouts_per_task),
                on_done=partial(told, "held-out harnesses"),
            )
            parts.append(group.create_task(elsewhere))
    except BaseExceptionGroup as errors:
        raise first_error(errors) from errors
    return [item for part in parts for item in part.result()]


class _Told:
    """The progress of one policy's parts, in one line."""

    def __init__(self, ctx: StageContext, entry: _Audited) -> None:
        self._ctx, self._entry = ctx, entry
        self._parts: dict[str, str] = {}

    def __call__(self, part: str, done: int, total: int) -> None:
        self._parts[part] = f"{part} {done}/{total}"
        text = f"{self._entry.name} {', '.join(self._parts.values())}"
        self._ctx.progress(self._entry.place, self._entry.place + 1, "policy", text)


def _attempts(spec: AuditSettings, entry: _Audited, wanted: int) -> int:
    """Rollouts of a task: fewer of the base policy."""
    return wanted if entry.place else min(wanted, spec.base_rollouts_per_task)


def _rates(ctx: StageContext, rollouts: Sequence[Rollout]) -> dict[str, dict[str, dict[str, float]]]:
    """Pass rates by split, by family and (if there are several) by domain within a split.

    Rollouts in held-out harnesses are in none of them: they have a row of their own among the domains.
    """
    tasks = read_tasks(task_folder(ctx))
    confidence = ctx.recipe.audit.confidence
    rollouts, elsewhere = apart(ctx, rollouts)
    labels: dict[str, dict[str, str]] = {
        "split": {task.task_id: task.split for task in tasks},
        "family": {task.task_id: _family(task) for task in tasks},
    }
    if len({share_kind(task) for task in tasks}) > 1:
        labels["domain"] = {task.task_id: f"{task.split}/{share_kind(task)}" for task in tasks}
    found = {
        kind: {
            name: cast("dict[str, float]", asdict(rate))
            for name, rate in rates_by(rollouts, label, confidence=confidence).items()
            if rate.mean is not None
        }
        for kind, label in labels.items()
    }
    if elsewhere:
        found.setdefault("domain", {}).update(heldout_harness_rates(elsewhere, tasks, confidence=confidence))
    return found


def _family(task: Task) -> str:
    return f"{task.split}/{task.family}"
