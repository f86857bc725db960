"""The samples of one mopd2 step: student rollouts, single turns after a teacher's or an expert's history."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from mimo.backends.base import Sampler
from mimo.recipe.models import Recipe
from mimo.rollouts.groups import GroupPlan, sample_groups
from mimo.rollouts.house import House
from mimo.rollouts.loop import Finished, derived_seed
from mimo.rollouts.prefixes import Trajectory, draw_prefixes
from mimo.rollouts.signal import SampledGroup, SignalRules, learning_signal
from mimo.rollouts.single_turn import sample_turns, turn_plans
from mimo.rollouts.store import RolloutStore
from mimo.stages.base import StageContext
from mimo.stages.demonstrations import kept_demonstrations
from mimo.stages.feed import TaskFeed
from mimo.stages.hack_audit import HackAudit
from mimo.stages.harness_choice import group_harness
from mimo.types import HackVerdict, Rollout, Task

Kind = Literal["student", "teacher_prefix", "sft_prefix"]
KINDS: tuple[Kind, ...] = get_args(Kind)
TEACHER_OF: Mapping[Kind, str] = {
    "student": "rl-mixed",
    "teacher_prefix": "rl-mixed",
    "sft_prefix": "cold-start",
}
"""Exactly one teacher a sample, decided by its kind: never an average over teachers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """What the student sampled, of which kind; `position` is the prefix's number of assistant turns."""

    kind: Kind
    finished: Finished
    outcome: float = 0.0
    """Outcome advantage of a student's rollout; 0 for single turns, and where `mopd2.alpha` is 0."""
    position: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Histories:
    """Trajectories to go on from, and those kept apart for the evaluation."""

    train: Mapping[Kind, Sequence[Trajectory]]
    evaluation: Mapping[Kind, Sequence[Trajectory]]


def histories(ctx: StageContext) -> Histories:
    """The RL stage's latest rollouts and the kept demonstrations, each split by seed into two."""
    spec = ctx.recipe.mopd2
    wanted = sample_counts(spec.samples_per_step, spec.weights.model_dump())
    rl = RolloutStore(ctx.inputs["rl-mixed"])
    teacher, unusable = _latest(rl, wanted["teacher_prefix"] + spec.evaluation_contexts)
    found: dict[Kind, list[Trajectory]] = {"teacher_prefix": teacher}
    if unusable and ctx.resume is None:
        ctx.count("rollout not used as a history", unusable, why="no verdict, no turn, or a confirmed hack")
    if "cold-start" in ctx.inputs:
        found["sft_prefix"] = _demonstrations(ctx.inputs["cold-start"])
    train: dict[Kind, Sequence[Trajectory]] = {}
    apart: dict[Kind, Sequence[Trajectory]] = {}
    for kind, rows in found.items():
        random.Random(derived_seed("histories", ctx.recipe.seed, kind)).shuffle(rows)
        held = min(spec.evaluation_contexts, len(rows) // 2)
        apart[kind], train[kind] = rows[:held], rows[held:]
    return Histories(train=train, evaluation=apart)


def sample_counts(total: int, weights: Mapping[str, float]) -> dict[Kind, int]:
    """Samples of each kind, in proportion to the weights; at least one where the weight is above 0."""
    return {kind: max(1, round(total * weights[kind])) if weights[kind] > 0 else 0 for kind in KINDS}


async def gather(
    ctx: StageContext,
    step: int,
    feed: TaskFeed,
    sampler: Sampler,
    house: House,
    *,
    sources: Mapping[Kind, Sequence[Trajectory]],
    rules: SignalRules,
) -> list[Sample]:
    """The step's samples (step counts from 0), all sampled side by side."""
    spec = ctx.recipe.mopd2
    counts = sample_counts(spec.samples_per_step, spec.weights.model_dump())
    total, done = sum(counts.values()), 0

    def one_done() -> None:
        nonlocal done
        done += 1
        ctx.progress(step, spec.steps, "step", f"sampling {done}/{total}")

    student = _student(ctx, step, feed, counts["student"], sampler, house, rules=rules, on_done=one_done)
    turns = [
        _turns(ctx, step, kind, counts[kind], sampler, house, sources=sources, on_done=one_done)
        for kind in KINDS
        if kind != "student"
    ]
    return [sample for row in await asyncio.gather(student, *turns) for sample in row]


async def _student(
    ctx: StageContext,
    step: int,
    feed: TaskFeed,
    number: int,
    sampler: Sampler,
    house: House,
    *,
    rules: SignalRules,
    on_done: Callable[[], None],
) -> list[Sample]:
    """Full rollouts: one a task, or groups where an outcome advantage is wanted."""
    if number == 0:
        return []
    grouped = ctx.recipe.mopd2.alpha > 0
    size = ctx.recipe.rl_mixed.group_size if grouped else 1
    plans = _plans(ctx.recipe, step, feed.take(max(1, number // size)), size)
    if (other := len(plans) * size - number) != 0:
        why = f"step {step + 1}: {number} asked for, whole groups of rl_mixed.group_size are sampled"
        ctx.count(f"student sample {'more' if other > 0 else 'less'} than asked for", abs(other), why=why)
    rows = await sample_groups(
        plans, lambda _: sampler, house, seed=ctx.recipe.seed, on_done=lambda *_: on_done()
    )
    if grouped:
        rows = _with_outcome(ctx, plans, rows, HackAudit(house.store), rules)
    return [
        Sample(kind="student", finished=item, outcome=(item.rollout.advantage or 0.0) if grouped else 0.0)
        for row in rows
        for item in row
    ]


def _plans(recipe: Recipe, step: int, tasks: Sequence[Task], size: int) -> list[GroupPlan]:
    ids = [f"s{step + 1:06d}-d{number:05d}" for number in range(len(tasks))]
    return [
        GroupPlan(
            group_id=name, task=task, harness=group_harness(recipe, task, name), step=step + 1, size=size
        )
        for name, task in zip(ids, tasks, strict=True)
    ]


def _with_outcome(
    ctx: StageContext,
    plans: Sequence[GroupPlan],
    rows: Sequence[Sequence[Finished]],
    audit: HackAudit,
    rules: SignalRules,
) -> list[list[Finished]]:
    """Audited, then with the group-relative advantage of the verifier's reward (a confirmed hack's is 0)."""
    groups = []
    for plan, row in zip(plans, rows, strict=True):
        judged = [
            replace(item, rollout=replace(item.rollout, hack=audit.finding(plan.task, item.rollout)))
            for item in row
        ]
        for item in judged:
            if item.rollout.hack is not None and item.rollout.hack.verdict is not HackVerdict.CLEAN:
                routes = ", ".join(item.rollout.hack.routes)
                ctx.count(f"hack audit: {item.rollout.hack.verdict}", why=routes)
        groups.append(SampledGroup(plan=plan, finished=tuple(judged), method="plain"))
    signal = learning_signal(groups, rules)
    for group in signal.groups:
        if not group.accepted:
            ctx.count("student group without an outcome advantage", why=group.reason or "")
    return [list(row) for row in signal.finished]


async def _turns(
    ctx: StageContext,
    step: int,
    kind: Kind,
    number: int,
    sampler: Sampler,
    house: House,
    *,
    sources: Mapping[Kind, Sequence[Trajectory]],
    on_done: Callable[[], None],
) -> list[Sample]:
    """Single turns; none (and a count) where there is no history to go on from."""
    if number and not sources.get(kind):
        ctx.count(f"no {kind} sample", why="no recorded history to go on from")
        return []
    seed = derived_seed("mopd2", ctx.recipe.seed, kind)
    decay = ctx.recipe.mopd2.prefix_decay
    drawn = draw_prefixes(sources[kind], number, decay=decay, seed=seed, step=step) if number else []
    plans = turn_plans(drawn, name=kind[0], step=step + 1, seed=seed)
    finished = await sample_turns(
        plans, sampler, house, turn_s=ctx.recipe.tasks.limits.turn_s, on_done=on_done
    )
    return [
        Sample(kind=kind, finished=item, position=prefix.position)
        for item, prefix in zip(finished, drawn, strict=True)
    ]


def _latest(store: RolloutStore, number: int) -> tuple[list[Trajectory], int]:
    """At least `number` usable trajectories from the newest steps (nearest to the teacher's weights), and how
    many rollouts of these steps cannot be used."""
    found: list[Trajectory] = []
    read = 0
    for step in reversed(store.steps()):
        payloads = store.payloads(step)
        rollouts = list(store.rollouts(step))
        read += len(rollouts)
        found += [
            Trajectory(rollout=rollout, payload=payloads[rollout.rollout_id])
            for rollout in rollouts
            if usable(rollout) and rollout.rollout_id in payloads
        ]
        if len(found) >= number:
            break
    return found, read - len(found)


def usable(rollout: Rollout) -> bool:
    """A verifier judged it, no audit confirmed a hack, and the policy took a turn."""
    hacked = rollout.hack is not None and rollout.hack.verdict is HackVerdict.CONFIRMED
    return rollout.verdict is not None and not hacked and rollout.num_turns > 0


def _demonstrations(output: Path) -> list[Trajectory]:
    """The demonstrations that cold-start trained on."""
    kept = kept_demonstrations(output / "demonstrations")
    return [Trajectory(rollout=item.rollout, payload=item.payload) for item in kept]
