"""Intervals of pass rates: Wilson's own numbers, clustering, degenerate cases."""

from __future__ import annotations

import pytest

from mimo.rollouts.rates import pass_rate


def test_one_rollout_a_task_is_plain_wilson() -> None:
    outcomes = {str(i): [i < 8] for i in range(10)}
    rate = pass_rate(outcomes, confidence=0.95)
    assert rate.mean == pytest.approx(0.8)
    # Wilson (1927), 8 of 10 at 95 %: 0.4902 to 0.9433 (the sample variance gives 9, at least 10 tasks)
    assert rate.low == pytest.approx(0.4902, abs=1e-4)
    assert rate.high == pytest.approx(0.9433, abs=1e-4)


def test_copies_of_a_rollout_do_not_narrow_the_interval() -> None:
    once = pass_rate({str(i): [i < 8] for i in range(10)}, confidence=0.95)
    copied = pass_rate({str(i): [i < 8] * 50 for i in range(10)}, confidence=0.95)
    assert copied.low == pytest.approx(once.low)
    assert copied.rollouts == 500


def test_independent_rollouts_narrow_it() -> None:
    half = pass_rate({str(i): [True, False] * 10 for i in range(10)}, confidence=0.95)
    assert half.mean == 0.5
    assert half.high is not None
    assert half.high - 0.5 < 0.08


def test_all_pass_counts_tasks_and_nothing_is_nothing() -> None:
    rate = pass_rate({"a": [True] * 100, "b": [True] * 100}, confidence=0.95)
    assert rate.high == 1.0
    assert rate.low is not None
    assert rate.low < 0.4
    empty = pass_rate({"a": []}, confidence=0.95)
    assert (empty.mean, empty.low, empty.tasks) == (None, None, 0)
