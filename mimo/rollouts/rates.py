"""Pass rates with intervals that know that rollouts of one task are not independent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist


@dataclass(frozen=True, kw_only=True, slots=True)
class Rate:
    """A share with its interval; None where there was nothing to count."""

    mean: float | None
    low: float | None
    high: float | None
    tasks: int
    rollouts: int


def pass_rate(outcomes: Mapping[str, Sequence[bool]], *, confidence: float) -> Rate:
    """The mean over tasks of each task's share of True, and its interval.

    The interval is Wilson's at the effective number of rollouts: the number whose binomial variance equals
    the variance between the tasks' means (Kish's design effect), never under the number of tasks nor over
    the number of rollouts. With all outcomes equal it is the number of tasks.

    Args:
        outcomes: task id -> one bool a rollout; tasks without rollouts are left out.
        confidence: two-sided, in (0, 1).
    """
    rows = [list(row) for row in outcomes.values() if row]
    rollouts = sum(map(len, rows))
    if not rows:
        return Rate(mean=None, low=None, high=None, tasks=0, rollouts=0)
    means = [sum(row) / len(row) for row in rows]
    mean = sum(means) / len(means)
    low, high = wilson(mean, _effective(means, mean, rollouts), confidence)
    return Rate(mean=mean, low=low, high=high, tasks=len(rows), rollouts=rollouts)


def mean_score(scores: Mapping[str, Sequence[float]], *, confidence: float) -> Rate:
    """The mean over tasks of each task's mean score, and its interval.

    As `pass_rate`: Wilson's interval at the number whose binomial variance equals the variance between the
    tasks' means. Scores that differ little between tasks are worth more than as many passes and failures, so
    nothing caps that number from above; with all means equal it is the number of tasks.

    Args:
        scores: task id -> one number in [0, 1] a rollout; tasks without a score are left out.
        confidence: two-sided, in (0, 1).
    """
    rows = [list(row) for row in scores.values() if row]
    rollouts = sum(map(len, rows))
    if not rows:
        return Rate(mean=None, low=None, high=None, tasks=0, rollouts=0)
    means = [sum(row) / len(row) for row in rows]
    mean = sum(means) / len(means)
    number = max(_binomial(means, mean) or 0.0, float(len(rows)))
    low, high = wilson(mean, number, confidence)
    return Rate(mean=mean, low=low, high=high, tasks=len(rows), rollouts=rollouts)


def _effective(means: Sequence[float], mean: float, rollouts: int) -> float:
    tasks = len(means)
    if tasks < 2:
        return float(tasks)
    number = _binomial(means, mean)
    if number is None:
        return float(tasks) if mean in (0.0, 1.0) else float(rollouts)
    return min(max(number, float(tasks)), float(rollouts))


def _binomial(means: Sequence[float], mean: float) -> float | None:
    """The number whose binomial variance is that of the mean of `means`; None where they do not differ."""
    tasks = len(means)
    if tasks < 2:
        return None
    variance = sum((value - mean) ** 2 for value in means) / (tasks - 1) / tasks
    return mean * (1 - mean) / variance if variance > 0.0 else None


def wilson(share: float, number: float, confidence: float) -> tuple[float, float]:
    """Wilson's interval of `share` at `number` observations, two-sided, within [0, 1].

    Source: Wilson, Probable inference, JASA 22 (1927), 209-212.
    """
    z = two_sided_z(confidence)
    centre = (share + z * z / (2 * number)) / (1 + z * z / number)
    half = z / (1 + z * z / number) * math.sqrt(share * (1 - share) / number + z * z / (4 * number * number))
    return max(0.0, centre - half), min(1.0, centre + half)


def two_sided_z(confidence: float) -> float:
    """The standard normal's quantile that leaves (1 - confidence) / 2 above it."""
    return NormalDist().inv_cdf(0.5 + confidence / 2)
