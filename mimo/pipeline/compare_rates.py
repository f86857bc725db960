"""Shares of two runs side by side: what an interval was made from, and the interval of their difference.

The difference of two shares is B - A with Newcombe's hybrid interval (method 10): with the Wilson intervals
(l_a, u_a) and (l_b, u_b) at each side's effective number of rollouts,

    low  = (b - a) - sqrt((b - l_b)^2 + (u_a - a)^2)
    high = (b - a) + sqrt((u_b - b)^2 + (a - l_a)^2)

Source: Newcombe, Interval estimation for the difference between independent proportions, Statistics in
Medicine 17 (1998), 873-890.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from mimo.rollouts.rates import two_sided_z, wilson
from mimo.types import Json

METHOD = (
    "B - A; Newcombe's interval from the Wilson intervals at each run's effective number of rollouts; "
    "the runs count as independent. In rl-mixed a group of rollouts counts as one"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """A share in [0, 1] with its Wilson interval; `effective` is the number of rollouts it was made at."""

    value: float
    low: float
    high: float
    effective: float
    rollouts: int
    tasks: int

    def as_json(self) -> dict[str, Json]:
        """The share as data."""
        return {
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "effective": self.effective,
            "rollouts": self.rollouts,
            "tasks": self.tasks,
        }


def reported_share(rate: Mapping[str, Json], confidence: float) -> Share | None:
    """The share of a rate in the audit's report; None where nothing was counted.

    Its effective number is not in the report, but the Wilson interval holds it: at either end x,
    (x - share)^2 = z^2 x (1 - x) / number. The end farther from the share is the one that is not cut off.
    """
    value, low, high = rate.get("rate"), rate.get("low"), rate.get("high")
    if not (_number(value) and _number(low) and _number(high)):
        return None
    share, ends = float(str(value)), (float(str(low)), float(str(high)))
    end = max(ends, key=lambda x: abs(x - share))
    z = two_sided_z(confidence)
    return Share(
        value=share,
        low=ends[0],
        high=ends[1],
        effective=z * z * end * (1 - end) / (end - share) ** 2 if end != share else math.inf,
        rollouts=int(str(rate.get("rollouts") or 0)),
        tasks=int(str(rate.get("tasks") or 0)),
    )


def counted_share(value: float, *, rollouts: int, tasks: int, confidence: float) -> Share:
    """A share with the Wilson interval at the number of tasks: rollouts of one task count as one."""
    low, high = wilson(value, tasks, confidence)
    return Share(value=value, low=low, high=high, effective=tasks, rollouts=rollouts, tasks=tasks)


def difference(a: Share, b: Share) -> dict[str, Json]:
    """B - A with its interval, {value, low, high}; both intervals must be of one confidence."""
    value = b.value - a.value
    return {
        "value": value,
        "low": value - math.hypot(b.value - b.low, a.high - a.value),
        "high": value + math.hypot(b.high - b.value, a.value - a.low),
    }


def _number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
