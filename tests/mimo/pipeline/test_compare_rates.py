"""Intervals of shares and of their difference, against published numbers and the audit's own."""

from __future__ import annotations

import pytest

from mimo.pipeline.compare_rates import Share, counted_share, difference, reported_share
from mimo.rollouts.rates import Rate, pass_rate
from mimo.types import Json


def share(passed: int, number: int) -> Share:
    return counted_share(passed / number, rollouts=number, tasks=number, confidence=0.95)


def reported(rate: Rate) -> dict[str, Json]:
    """As the audit's report writes a rate."""
    return {
        "rate": rate.mean,
        "low": rate.low,
        "high": rate.high,
        "rollouts": rate.rollouts,
        "tasks": rate.tasks,
    }


@pytest.mark.parametrize(
    ("one", "other", "low", "high"),
    [
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((10, 10), (0, 10), 0.6075, 1.0),
        ((0, 10), (0, 20), -0.1611, 0.2775),
    ],
)
def test_the_interval_of_a_difference_is_newcombes(
    one: tuple[int, int], other: tuple[int, int], low: float, high: float
) -> None:
    """Newcombe 1998, table II, method 10 (there: first minus second)."""
    found = difference(share(*other), share(*one))
    assert found["value"] == pytest.approx(one[0] / one[1] - other[0] / other[1])
    assert found["low"] == pytest.approx(low, abs=6e-5)
    assert found["high"] == pytest.approx(high, abs=6e-5)


def test_swapping_the_runs_swaps_the_signs() -> None:
    there, back = difference(share(3, 10), share(9, 10)), difference(share(9, 10), share(3, 10))
    assert there["value"] == -float(str(back["value"]))
    assert (there["low"], there["high"]) == pytest.approx(
        (-float(str(back["high"])), -float(str(back["low"])))
    )


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
@pytest.mark.parametrize(
    ("outcomes", "effective"),
    [
        ({f"t{i}": [i < 3] for i in range(10)}, 9.0),
        ({f"t{i}": [False, False] for i in range(12)}, 12.0),
        ({f"t{i}": [True] * 4 for i in range(5)}, 5.0),
        ({"a": [True, True], "b": [False, False], "c": [True, False]}, 3.0),
        ({"a": [True, False], "b": [False, True]}, 4.0),
    ],
)
def test_the_effective_number_is_read_back_from_the_audits_interval(
    outcomes: dict[str, list[bool]], effective: float, confidence: float
) -> None:
    found = reported_share(reported(pass_rate(outcomes, confidence=confidence)), confidence)
    assert found is not None
    assert found.effective == pytest.approx(max(effective, len(outcomes)))
    again = counted_share(found.value, rollouts=1, tasks=1, confidence=confidence)
    assert again.high - again.low > found.high - found.low


def test_a_counted_share_has_the_audits_interval() -> None:
    """Both modules compute Wilson's interval; with one rollout a task and a mean of 0 both use the tasks."""
    rate = pass_rate({f"t{i}": [False] for i in range(12)}, confidence=0.9)
    found = counted_share(0.0, rollouts=12, tasks=12, confidence=0.9)
    assert (found.low, found.high) == pytest.approx((rate.low, rate.high))


def test_nothing_counted_is_no_share() -> None:
    assert reported_share(reported(pass_rate({}, confidence=0.95)), 0.95) is None
