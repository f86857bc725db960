"""Intervals of pass rates: Wilson's own numbers, clustering, degenerate cases."""

from __future__ import annotations

import pytest

from mimo.rollouts.rates import mean_score, pass_rate


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


def test_a_mean_score_is_of_tasks_and_its_interval_resamples_them() -> None:
    scores = {str(task): [task / 10] * (1 + task % 3) for task in range(11)}
    rate = mean_score(scores, confidence=0.95)
    assert (rate.mean, rate.tasks, rate.rollouts) == (pytest.approx(0.5), 11, 21)
    # the standard error of the mean is sqrt(0.1 / 11) = 0.095 (population variance of 0, .1, ..., 1 is 0.1)
    assert rate.low == pytest.approx(0.5 - 1.96 * 0.0953, abs=0.01)
    assert rate.high == pytest.approx(0.5 + 1.96 * 0.0953, abs=0.01)
    narrower = mean_score(scores, confidence=0.8)
    assert narrower.low is not None
    assert rate.low is not None
    assert narrower.low > rate.low
    assert mean_score(scores, confidence=0.95) == rate


def test_more_rollouts_of_a_task_do_not_narrow_a_mean_scores_interval() -> None:
    once = mean_score({"a": [0.2], "b": [0.8], "c": [0.5]}, confidence=0.95)
    often = mean_score({"a": [0.2] * 9, "b": [0.8] * 9, "c": [0.5] * 9}, confidence=0.95)
    assert (often.low, often.high) == pytest.approx((once.low, once.high))


def test_one_task_has_no_interval_equal_tasks_none_wide_and_nothing_is_nothing() -> None:
    one = mean_score({"a": [0.2, 0.4], "b": []}, confidence=0.95)
    assert (one.mean, one.low, one.high, one.tasks) == (pytest.approx(0.3), None, None, 1)
    equal = mean_score({"a": [0.5], "b": [0.5]}, confidence=0.95)
    assert (equal.low, equal.high) == (0.5, 0.5)
    assert mean_score({}, confidence=0.95).mean is None
