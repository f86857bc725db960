"""The groups of one rl-mixed step: sample, filter, refill within a bound, and count what was lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mimo.backends.base import Sampler
from mimo.domains.base import share_kind
from mimo.recipe.models import Recipe
from mimo.rollouts.groups import GroupPlan, sample_groups
from mimo.rollouts.house import House
from mimo.rollouts.loop import Finished
from mimo.rollouts.signal import SampledGroup, SignalRules, learning_signal
from mimo.stages.base import StageContext
from mimo.stages.feed import MixedFeed
from mimo.stages.harness_choice import group_harness
from mimo.types import Group, Routing, Task

Grade = Callable[[Sequence[SampledGroup]], list[SampledGroup]]
"""Audit and grade groups (adds `hack` and `grades` to their rollouts) before any statistic."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Collected:
    """The step's groups: those that train, and every group that was sampled with its record."""

    accepted: tuple[SampledGroup, ...]
    rejected: tuple[tuple[Group, tuple[Finished, ...]], ...]
    rounds: int
    wanted: dict[str, int]
    """Accepted groups that the step should have of each kind of task."""


async def collect(
    ctx: StageContext,
    step: int,
    feed: MixedFeed,
    sampler: Sampler,
    house: House,
    *,
    rules: SignalRules,
    grade: Grade,
) -> Collected:
    """At most `groups_per_step` accepted groups, after at most `max_refills` rounds of replacements.

    Every kind of task has its part of them; a group that was rejected is replaced by one of its kind.
    """
    spec = ctx.recipe.rl_mixed
    wanted = feed.quotas(spec.groups_per_step, step)
    accepted: list[SampledGroup] = []
    rejected: list[tuple[Group, tuple[Finished, ...]]] = []
    rounds = 0
    while (missing := _missing(wanted, accepted)) and rounds <= spec.max_refills:
        plans = _plans(ctx.recipe, step, len(accepted) + len(rejected), feed.take(missing))
        groups = grade(await _sampled(ctx, step, plans, sampler, house))
        signal = learning_signal(groups, rules)
        for group, record, finished in zip(groups, signal.groups, signal.finished, strict=True):
            if record.accepted:
                accepted.append(group)
            else:
                rejected.append((record, finished))
                ctx.count("group rejected", why=record.reason or "")
        rounds += 1
    if missing:
        lacking = ", ".join(f"{number} {kind}" for kind, number in missing.items())
        ctx.count(
            "refill bound reached",
            why=f"step {step + 1}: {len(accepted)} of {spec.groups_per_step} groups after {rounds} rounds "
            f"(missing: {lacking})",
        )
    return Collected(accepted=tuple(accepted), rejected=tuple(rejected), rounds=rounds, wanted=wanted)


def _missing(wanted: Mapping[str, int], accepted: Sequence[SampledGroup]) -> dict[str, int]:
    """What is still wanted of each kind, where anything is."""
    have = Counter(share_kind(group.plan.task) for group in accepted)
    return {kind: number - have[kind] for kind, number in wanted.items() if number > have[kind]}


def _plans(recipe: Recipe, step: int, first: int, tasks: Sequence[Task]) -> list[GroupPlan]:
    """One group a task; a whole group uses one harness, drawn by seed."""
    ids = [f"s{step + 1:06d}-g{first + number:05d}" for number in range(len(tasks))]
    return [
        GroupPlan(
            group_id=name,
            task=task,
            harness=group_harness(recipe, task, name),
            step=step + 1,
            size=recipe.rl_mixed.group_size,
        )
        for name, task in zip(ids, tasks, strict=True)
    ]


async def _sampled(
    ctx: StageContext, step: int, plans: Sequence[GroupPlan], sampler: Sampler, house: House
) -> list[SampledGroup]:
    groups = await sample_groups(
        plans,
        lambda _: sampler,
        house,
        seed=ctx.recipe.seed,
        on_done=lambda done, total: ctx.progress(
            step, ctx.recipe.rl_mixed.steps, "step", f"sampling {done}/{total}"
        ),
    )
    for row in groups:
        for item in row:
            if item.rollout.error is not None:
                error = item.rollout.error
                ctx.count("rollout masked", why=f"{item.rollout.status}: {error.type} in {error.where}")
    return [
        SampledGroup(plan=plan, finished=tuple(row), method=_method(plan.task))
        for plan, row in zip(plans, groups, strict=True)
    ]


def _method(task: Task) -> Routing:
    return task.routing
