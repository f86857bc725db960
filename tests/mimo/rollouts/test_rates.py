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


def test_a_mean_scores_interval_is_that_of_its_standard_error() -> None:
    scores = {str(task): [0.5 + (task - 5) / 100] * (1 + task % 3) for task in range(11)}
    rate = mean_score(scores, confidence=0.95)
    assert (rate.mean, rate.tasks, rate.rollouts) == (pytest.approx(0.5), 11, 21)
    # means 0.45, 0.46, ..., 0.55: sample variance 0.0011, standard error sqrt(0.0011 / 11) = 0.01
    assert rate.low == pytest.approx(0.5 - 1.96 * 0.01, abs=1e-4)
    assert rate.high == pytest.approx(0.5 + 1.96 * 0.01, abs=1e-4)


def test_zeros_and_ones_get_the_interval_of_a_pass_rate() -> None:
    outcomes = {str(i): [i < 8] for i in range(10)}
    scores = {task: [float(value) for value in row] for task, row in outcomes.items()}
    rate, same = mean_score(scores, confidence=0.95), pass_rate(outcomes, confidence=0.95)
    assert (rate.mean, rate.low, rate.high) == (same.mean, same.low, same.high)
    failed = {str(i): [False] * 3 for i in range(12)}
    none = mean_score({task: [0.0] * 3 for task in failed}, confidence=0.95)
    assert (none.low, none.high) == (0.0, pass_rate(failed, confidence=0.95).high)
    assert none.high == pytest.approx(0.2425, abs=1e-3)


def test_more_rollouts_of_a_task_do_not_narrow_a_mean_scores_interval() -> None:
    once = mean_score({"a": [0.2], "b": [0.8], "c": [0.5]}, confidence=0.95)
    often = mean_score({"a": [0.2] * 9, "b": [0.8] * 9, "c": [0.5] * 9}, confidence=0.95)
    assert (often.low, often.high) == pytest.approx((once.low, once.high))


def test_one_task_is_one_observation_and_nothing_is_nothing() -> None:
    one = mean_score({"a": [0.2, 0.4], "b": []}, confidence=0.95)
    assert (one.mean, one.tasks) == (pytest.approx(0.3), 1)
    assert one.low is not None
    assert one.high is not None
    assert one.high - one.low > 0.6
    assert mean_score({}, confidence=0.95).mean is None
