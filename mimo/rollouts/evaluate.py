"""The pass rates of a policy on a task set, by split and by family."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from mimo.backends.base import Sampler
from mimo.rollouts.groups import GroupPlan, sample_groups
from mimo.rollouts.house import House
from mimo.rollouts.loop import Finished
from mimo.rollouts.rates import Rate, pass_rate
from mimo.types import Rollout, Task


async def evaluate(
    tasks: Sequence[Task],
    sampler: Sampler,
    house: House,
    *,
    name: str,
    harness: Callable[[Task], str],
    step: int,
    attempts: int,
    seed: int,
    on_done: Callable[[int, int], None],
) -> list[Finished]:
    """`attempts` rollouts of every task, flat, in the tasks' order; all of one task in one harness."""
    plans = [
        GroupPlan(
            group_id=f"{name}-{step:06d}-{number:05d}",
            task=task,
            harness=harness(task),
            step=step,
            size=attempts,
        )
        for number, task in enumerate(tasks)
    ]
    groups = await sample_groups(plans, lambda _: sampler, house, seed=seed, on_done=on_done)
    return [finished for group in groups for finished in group]


def outcomes(rollouts: Iterable[Rollout]) -> dict[str, list[bool]]:
    """task_id -> passed, for the rollouts that have a verdict (the others are counted, not failed)."""
    rows: dict[str, list[bool]] = defaultdict(list)
    for rollout in rollouts:
        if rollout.verdict is not None:
            rows[rollout.task_id].append(rollout.verdict.passed and not rollout.verdict.tampered)
    return rows


def rates_by(rollouts: Sequence[Rollout], label: Mapping[str, str], *, confidence: float) -> dict[str, Rate]:
    """label -> pass rate over its tasks; `label` maps task_id to a split or a family."""
    rows = outcomes(rollouts)
    names = sorted(set(label.values()))
    return {
        name: pass_rate({t: r for t, r in rows.items() if label[t] == name}, confidence=confidence)
        for name in names
    }
