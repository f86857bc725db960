"""The groups of one rl-mixed step: sample, filter, refill within a bound, and count what was lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mimo.backends.base import Sampler
from mimo.domains.base import share_kind
from mimo.rollouts.groups import GroupPlan, first_error, sample_groups
from mimo.rollouts.house import House
from mimo.rollouts.loop import Finished
from mimo.rollouts.signal import SampledGroup, SignalRules, learning_signal
from mimo.stages.base import StageContext
from mimo.stages.feed import MixedFeed
from mimo.stages.harness_choice import group_harness
from mimo.types import Group, Task

Grade = Callable[[Sequence[SampledGroup]], list[SampledGroup]]
"""Audit and grade groups (adds `hack` and `grades` to their rollouts) before any statistic."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Collected:
    """The step's groups: those that train, and every group that was sampled with its record."""

    accepted: tuple[SampledGroup, ...]
    rejected: tuple[tuple[Group, tuple[Finished, ...]], ...]
    rounds: int
    """Groups that the most often refilled place took: 1 = no group was rejected."""
    wanted: dict[str, int]
    """Accepted groups that the step should have of each kind of task."""


@dataclass(kw_only=True, slots=True)
class _Step:
    """What the places of one step share; each of them is to end with one accepted group."""

    ctx: StageContext
    step: int
    feed: MixedFeed
    sampler: Sampler
    house: House
    rules: SignalRules
    grade: Grade
    accepted: list[SampledGroup] = field(default_factory=list)
    rejected: list[tuple[Group, tuple[Finished, ...]]] = field(default_factory=list)
    sampled: int = 0
    rounds: int = 0
    rollouts: int = 0
    grading: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def fill(self, task: Task) -> None:
        """Sample groups, from `task` on, until one is accepted or `max_refills` replacements were."""
        kind = share_kind(task)
        for refills in range(self.ctx.recipe.rl_mixed.max_refills + 1):
            if refills:
                [task] = self.feed.take({kind: 1})
            group = await self._judged(await self._sampled(self._plan(task)))
            signal = learning_signal([group], self.rules)
            [record], [finished] = signal.groups, signal.finished
            self.rounds = max(self.rounds, refills + 1)
            if record.accepted:
                self.accepted.append(group)
                return
            self.rejected.append((record, finished))
            self.ctx.count("group rejected", why=record.reason or "")

    def _plan(self, task: Task) -> GroupPlan:
        """The next group: one task, and one harness drawn by seed."""
        name = f"s{self.step + 1:06d}-g{self.sampled:05d}"
        self.sampled += 1
        return GroupPlan(
            group_id=name,
            task=task,
            harness=group_harness(self.ctx.recipe, task, name),
            step=self.step + 1,
            size=self.ctx.recipe.rl_mixed.group_size,
        )

    async def _sampled(self, plan: GroupPlan) -> SampledGroup:
        [row] = await sample_groups(
            [plan],
            lambda _: self.sampler,
            self.house,
            seed=self.ctx.recipe.seed,
            on_done=lambda *_: self._show(),
        )
        for item in row:
            if (error := item.rollout.error) is not None:
                self.ctx.count("rollout masked", why=f"{item.rollout.status}: {error.type} in {error.where}")
        return SampledGroup(plan=plan, finished=tuple(row), method=plan.task.routing)

    async def _judged(self, group: SampledGroup) -> SampledGroup:
        """Audited and graded, one group at a time, in a thread: a judge's answers take their time."""
        async with self.grading:
            [graded] = await asyncio.to_thread(self.grade, [group])
        return graded

    def _show(self) -> None:
        self.rollouts += 1
        total = self.sampled * self.ctx.recipe.rl_mixed.group_size
        note = f"sampling {self.rollouts}/{total}, {len(self.accepted)} groups accepted"
        self.ctx.progress(self.step, self.ctx.recipe.rl_mixed.steps, "step", note)


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
    """At most `groups_per_step` accepted groups, in the order of their ids.

    Every kind of task has its part of them. A rejected group is replaced at once, while the others still
    sample, by one of its kind, and that one again, at most `max_refills` times.

    Raises:
        EngineFailed: the engine is gone; every rollout is cancelled and its box closed.
    """
    wanted = feed.quotas(ctx.recipe.rl_mixed.groups_per_step, step)
    work = _Step(ctx=ctx, step=step, feed=feed, sampler=sampler, house=house, rules=rules, grade=grade)
    try:
        async with asyncio.TaskGroup() as places:
            for task in feed.take(wanted):
                places.create_task(work.fill(task))
    except BaseExceptionGroup as errors:
        raise first_error(errors) from errors
    if missing := _missing(wanted, work.accepted):
        lacking = ", ".join(f"{number} {kind}" for kind, number in missing.items())
        ctx.count(
            "refill bound reached",
            sum(missing.values()),
            why=f"step {step + 1}: {len(work.accepted)} of {sum(wanted.values())} groups "
            f"(missing: {lacking})",
        )
    return Collected(
        accepted=tuple(sorted(work.accepted, key=lambda group: group.plan.group_id)),
        rejected=tuple(sorted(work.rejected, key=lambda row: row[0].group_id)),
        rounds=work.rounds,
        wanted=wanted,
    )


def _missing(wanted: Mapping[str, int], accepted: Sequence[SampledGroup]) -> dict[str, int]:
    """What is still wanted of each kind, where anything is."""
    have = Counter(share_kind(group.plan.task) for group in accepted)
    return {kind: number - have[kind] for kind, number in wanted.items() if number > have[kind]}
