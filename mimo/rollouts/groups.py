"""Groups of rollouts, sampled side by side; every attempt ends in exactly one record."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mimo.backends.base import Sampler
from mimo.rollouts.changes import changes_digest
from mimo.rollouts.house import House
from mimo.rollouts.loop import Attempt, Finished, derived_seed, run_rollout
from mimo.types import Task


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupPlan:
    """A group to sample: `size` attempts at `task` with one harness."""

    group_id: str
    task: Task
    harness: str
    step: int
    size: int


def attempts(plan: GroupPlan, seed: int) -> list[Attempt]:
    """The group's attempts; seeds differ by (run seed, step, task, number), so no two attempts are twins."""
    return [
        Attempt(
            rollout_id=f"{plan.group_id}.{number}",
            group_id=plan.group_id,
            task=plan.task,
            harness=plan.harness,
            step=plan.step,
            seed=derived_seed(seed, plan.step, plan.group_id, plan.task.task_id, number),
        )
        for number in range(plan.size)
    ]


async def sample_groups(
    plans: Sequence[GroupPlan],
    sampler_of: Callable[[Attempt], Sampler],
    house: House,
    *,
    seed: int,
    on_done: Callable[[int, int], None],
) -> list[list[Finished]]:
    """The finished rollouts of each group, in the plans' order; `on_done(done, total)` after each rollout.

    Args:
        sampler_of: the engine of an attempt (the run's server; an expert where demonstrations are replayed).

    Raises:
        EngineFailed: the engine is gone; every other rollout is cancelled and its box closed.
    """
    every = [attempts(plan, seed) for plan in plans]
    total = sum(map(len, every))
    done = 0

    async def one(attempt: Attempt) -> Finished:
        nonlocal done
        finished = await run_rollout(attempt, sampler_of(attempt), house)
        done += 1
        on_done(done, total)
        return _with_diff(finished)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [[group.create_task(one(attempt)) for attempt in row] for row in every]
    except BaseExceptionGroup as errors:
        raise first_error(errors) from errors
    return [[task.result() for task in row] for row in tasks]


def _with_diff(finished: Finished) -> Finished:
    if finished.changes is None:
        return finished
    return replace(finished, rollout=replace(finished.rollout, diff=changes_digest(finished.changes)))


def first_error(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error in a group of groups of them."""
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
