"""Leak reset and the GRS product: METHOD 3 and 8."""

from __future__ import annotations

from math import nan

import pytest
import torch
from hypothesis import given

from mimo.algo.reward import grs_rewards, leak_reset, ungraded
from tests.mimo.algo.batches import Rows, advantages, groups, outcome


def rewards_of(passed: list[int], solution: list[float], behavior: list[float], floor: float) -> list[float]:
    verdicts = torch.tensor(passed, dtype=torch.bool)
    scores = (torch.tensor(row, dtype=torch.float64) for row in (solution, behavior))
    return grs_rewards(verdicts.double(), *scores, verdicts, floor=floor).tolist()


def test_article_numbers() -> None:
    """METHOD 3.2, the article: 1 x .90 x .80 = .720, 1 x .50 x .50 = .250; failed work stays 0."""
    assert rewards_of([1, 1, 0], [0.9, 0.5, 0.9], [0.8, 0.5, 0.9], 0.0) == pytest.approx([0.72, 0.25, 0])


def test_product_punishes_imbalance() -> None:
    """METHOD 3.3: .9 * .1 = .09, .5 * .5 = .25."""
    assert rewards_of([1, 1], [0.9, 0.5], [0.1, 0.5], 0.0) == pytest.approx([0.09, 0.25])


def test_floor_lifts_passes_only() -> None:
    """METHOD 3.1: S := max(S, S_min) with .1, so a pass never equals a failure."""
    assert rewards_of([1, 1, 0], [0.0, 0.05, 0.0], [1.0, 0.0, 0.0], 0.1) == pytest.approx([0.1, 0.01, 0.0])


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (
            Rows([1, 1, 0, 0], solution=[0.9, 0.5, 0, 0], behavior=[0.8, 0.5, 0, 0]),
            [0.4775, 0.0075, -0.2425, -0.2425],  # METHOD 3.2, row 1
        ),
        (
            Rows([1, 1, 1, 1], solution=[0.9, 0.5, 0.9, 0.7], behavior=[0.8, 0.5, 0.9, 0.6]),
            [0.17, -0.30, 0.26, -0.13],  # METHOD 3.2, row 2: a pass below the mean
        ),
        (
            Rows([1, 1, 0, 0, 0], solution=[0.9, 0.5, 0, 0, 0], behavior=[0.8, 0.5, 0, 0, 0]),
            [0.526, 0.056, -0.194, -0.194, -0.194],  # METHOD 3.2, row 3
        ),
    ],
)
def test_grs_advantages(group: Rows, expected: list[float]) -> None:
    assert advantages(group, "grs") == pytest.approx(expected, abs=1e-12)


def test_equal_grs_rewards_drop_the_group() -> None:
    """METHOD 3.2, row 4."""
    result = outcome(Rows([1] * 4, solution=[0.9] * 4, behavior=[0.8] * 4), methods=("grs",))
    assert not result.groups.accepted.item()
    assert result.rollouts.advantage.tolist() == [0.0] * 4


def test_grs_does_not_conserve_the_positive_mass() -> None:
    """METHOD 3.3: with all passes at S = .5 the mass is half that of binary rewards."""
    binary = advantages(Rows([1, 1, 1, 0, 0]))
    halved = advantages(Rows([1, 1, 1, 0, 0], solution=[0.5] * 5, behavior=[1.0] * 5), "grs")
    assert sum(halved[:3]) == pytest.approx(sum(binary[:3]) / 2)


def test_leak_reset_numbers() -> None:
    """METHOD 8: N=5, k=3, m=1: passes .4 -> .6, others -.6 -> -.4, the leaked one .4 -> -.4."""
    assert advantages(Rows([1, 1, 1, 0, 0])) == pytest.approx([0.4, 0.4, 0.4, -0.6, -0.6])
    after = advantages(Rows([1, 1, 1, 0, 0], leak=[0, 0, 1, 0, 0]))
    assert after == pytest.approx([0.6, 0.6, -0.4, -0.4, -0.4])
    swing = 0.4 - after[2]
    assert swing == pytest.approx(1 - 1 / 5)  # METHOD 8: a false positive swings it by 1 - m/N


def test_reset_and_ungraded_functions() -> None:
    rewards, passed = torch.tensor([1.0, 2.0]), torch.tensor([True, True])
    reset, left = leak_reset(rewards, passed, torch.tensor([False, True]))
    assert reset.tolist() == [1.0, 0.0]
    assert left.tolist() == [True, False]
    scores = torch.tensor([nan, nan])
    assert ungraded(scores, torch.ones(2), torch.tensor([True, False])).tolist() == [True, False]


@given(groups())
def test_leak_reset_equals_recomputing_from_zeroed_rewards(group: Rows) -> None:
    """Any group, plain and GRS and GAR: a leaked rollout is a failed one with reward 0."""
    leak = group.leak or []
    honest = Rows(**{**vars(group), "leak": None})
    honest.passed = [one * (1 - hack) for one, hack in zip(group.passed, leak, strict=True)]
    for method in ("plain", "grs", "gar"):
        assert advantages(group, method) == advantages(honest, method)  # type: ignore[arg-type]
