"""The accept filter: by pass rate for plain and GAR, by reward spread for GRS; METHOD 3.3, 4.7, 7 (4)."""

from __future__ import annotations

from math import nan

import pytest

from mimo.algo.batch import Method
from mimo.algo.outcomes import REASONS
from tests.mimo.algo.batches import REFERENCE, Rows, outcome


def reason(group: Rows, method: Method, **settings: object) -> str | None:
    result = outcome(group, methods=(method,), **settings)  # type: ignore[arg-type]
    assert (result.groups.reason == 0).tolist() == result.groups.accepted.tolist()
    if not result.groups.accepted.item():
        assert not result.rollouts.advantage.any()
        assert not result.tokens.weight.any()
    return REASONS[int(result.groups.reason)]


@pytest.mark.parametrize("method", ["plain", "gar"])
def test_pass_rate(method: Method) -> None:
    assert reason(Rows([0, 0, 0]), method) == "no rollout passes"
    assert reason(Rows([1, 1, 1], quality=[1, 0.5, 0.2]), method) == "every rollout passes"
    assert reason(Rows([1, 0]), method) is None


def test_grs_by_spread_keeps_all_pass_groups() -> None:
    """METHOD 3.3: pass rate would discard the groups GRS exists for."""
    graded = Rows([1, 1], solution=[0.9, 0.5], behavior=[1, 1])
    assert reason(graded, "grs") is None
    assert reason(Rows([1, 1], solution=[0.5, 0.5], behavior=[1, 1]), "grs") == "rewards have no spread"
    assert reason(Rows([0, 0], solution=[0.5, 0.1], behavior=[1, 1]), "grs") == "rewards have no spread"


def test_too_few_valid_rollouts() -> None:
    assert reason(Rows([]), "plain") == "fewer than two valid rollouts"
    assert reason(Rows([1, 0], valid=[1, 0]), "plain") == "fewer than two valid rollouts"
    assert reason(Rows([1, 0, 0], valid=[1, 0, 1]), "plain") is None


def test_ungraded_grs_passes_are_masked_never_scored_zero() -> None:
    """METHOD 4.7: rollout masked, group rejected below two graded."""
    missing = Rows([1, 1, 1, 0], solution=[0.9, nan, 0.5, nan], behavior=[1, 1, 1, 1])
    result = outcome(missing, methods=("grs",))
    assert result.rollouts.valid.tolist() == [True, False, True, True]
    mean = (0.9 + 0.5) / 3
    assert result.rollouts.advantage.tolist() == pytest.approx([0.9 - mean, 0, 0.5 - mean, -mean])
    alone = Rows([1, 1], solution=[0.9, nan], behavior=[1, 1])
    assert reason(alone, "grs") == "fewer than two graded rollouts"


def test_leaks_count_before_the_filter() -> None:
    """METHOD 7: a reset turns an all-pass group into a mixed one, and a mixed one into all-fail."""
    assert reason(Rows([1, 1, 1], leak=[0, 0, 1]), "plain") is None
    assert reason(Rows([1, 0, 0], leak=[1, 0, 0]), "plain") == "no rollout passes"


def test_length_spread_never_rescues_a_group() -> None:
    """METHOD 5.3: the accept test comes before the penalty."""
    long = Rows([1, 1, 1], length=[10, 10, 500])
    assert reason(long, "plain", length=REFERENCE) == "every rollout passes"
    even = Rows([1, 1], solution=[0.5, 0.5], behavior=[1, 1], length=[10, 500])
    assert reason(even, "grs", length=REFERENCE) == "rewards have no spread"


def test_group_without_spread_after_the_penalty_is_dropped() -> None:
    """METHOD 7 (8): rewards given by the task may be equal although verdicts differ."""
    assert reason(Rows([1, 0], reward=[0.5, 0.5]), "plain") == "rewards have no spread"
