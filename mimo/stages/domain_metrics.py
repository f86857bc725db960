"""A step's numbers by kind of task (the keys of `rl_mixed.shares`), and what the mixture leaves out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from mimo.domains.base import share_kind
from mimo.rollouts.loop import Finished
from mimo.rollouts.store import RolloutStore
from mimo.stages.base import StageContext
from mimo.stages.collect import Collected
from mimo.stages.feed import MixedFeed
from mimo.types import Rollout, Task


def mixture_note(ctx: StageContext, feed: MixedFeed, *, first: bool) -> str:
    """The shares used, as a line for the run's summary and an event; `first`: count what they leave out."""
    for kind, share in feed.skipped.items() if first else ():
        ctx.count("domain skipped", why=f"{kind}: share {share:g}, but the task set has no such task")
    for kind, number in feed.unused.items() if first else ():
        ctx.count("task of a domain without a share", number, why=f"{kind}: its rl_mixed.shares is 0")
    ctx.event("mixture", {"shares": dict(feed.shares), "skipped": dict(feed.skipped)})
    used = ", ".join(f"{kind} {share:.3g}" for kind, share in feed.shares.items())
    left = f"; skipped, no task: {', '.join(feed.skipped)}" if feed.skipped else ""
    return f"batch shares: {used}{left}"


def domain_metrics(collected: Collected, tasks: Iterable[Task]) -> dict[str, float]:
    """`domains/KIND/...` of one step: groups wanted and accepted, and the pass rate of every rollout."""
    kinds = {task.task_id: share_kind(task) for task in tasks}
    rows: dict[str, list[Finished]] = defaultdict(list)
    for finished in (
        *(group.finished for group in collected.accepted),
        *(row for _, row in collected.rejected),
    ):
        for item in finished:
            rows[kinds[item.rollout.task_id]].append(item)
    metrics: dict[str, float] = {}
    for kind, wanted in collected.wanted.items():
        accepted = sum(share_kind(group.plan.task) == kind for group in collected.accepted)
        metrics |= {
            f"domains/{kind}/groups_wanted": float(wanted),
            f"domains/{kind}/groups_accepted": float(accepted),
        }
        if (rate := _rate([item.rollout for item in rows[kind]])) is not None:
            metrics[f"domains/{kind}/pass_rate"] = rate
    return metrics


def last_pass_rates(store: RolloutStore, tasks: Iterable[Task]) -> dict[str, float]:
    """`pass_rate_last_step/KIND`, each of the newest step that has a judged rollout of the kind.

    Empty where all tasks are of one kind: then it is the pass rate of the step.
    """
    kinds = {task.task_id: share_kind(task) for task in tasks}
    wanted = set(kinds.values())
    found: dict[str, float] = {}
    if len(wanted) < 2:
        return found
    for step in reversed(store.steps()):
        rollouts = list(store.rollouts(step))
        for kind in wanted - found.keys():
            rate = _rate([row for row in rollouts if kinds.get(row.task_id) == kind])
            if rate is not None:
                found[kind] = rate
        if found.keys() == wanted:
            break
    return {f"pass_rate_last_step/{kind}": rate for kind, rate in sorted(found.items())}


def _rate(rollouts: Sequence[Rollout]) -> float | None:
    judged = [row.verdict.passed for row in rollouts if row.verdict is not None]
    return sum(judged) / len(judged) if judged else None
