"""Ranks, scores and tiers to factors: METHOD 4.2."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mimo.algo.quality import (
    geometric_factors,
    linear_factors,
    mean_ranks,
    score_factors,
    strength_factors,
    tier_factors,
    tiers,
    weighted_scores,
)


def tensor(values: list[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_weights_of_the_five_dimensions() -> None:
    """METHOD 4.2: .30 approach + .25 precision + .20 minimality + .15 side-effects + .10 craftsmanship."""
    scores = torch.eye(5, dtype=torch.float64)
    assert weighted_scores(scores).tolist() == pytest.approx([0.30, 0.25, 0.20, 0.15, 0.10])
    assert weighted_scores(5 * torch.ones(1, 5, dtype=torch.float64)).item() == pytest.approx(5)


@pytest.mark.parametrize(
    ("scores", "serious", "bypass", "tier"),
    [
        ([5, 5, 5, 5, 5], False, True, 3),  # confirmed rewrite or bypass
        ([1, 5, 5, 5, 5], False, False, 3),  # approach at the lowest score
        ([5, 5, 2, 2, 5], False, False, 3),  # minimality and side effects both <= 2
        ([5, 5, 2, 3, 5], False, False, 2),
        ([4, 4, 4, 4, 4], False, False, 1),
        ([4, 4, 4, 4, 4], True, False, 2),  # serious process problem
        ([5, 5, 5, 5, 3], False, False, 2),
    ],
)
def test_tier_rules_first_match_wins(scores: list[float], serious: bool, bypass: bool, tier: int) -> None:
    assert tiers(tensor(scores)[None], torch.tensor([serious]), torch.tensor([bypass])).tolist() == [tier]


def test_tier_factors() -> None:
    """METHOD 4.2: T1 best 1.0, other T1 .9; T2 .85 to .40 by tie-group rank; T3 .2."""
    tier = torch.tensor([1, 1, 2, 2, 2, 2, 3])
    score = tensor([4.8, 4.5, 3.9, 3.5, 3.5, 3.0, 1.0])
    found = tier_factors(tier, score)
    assert found.tolist() == pytest.approx([1.0, 0.9, 0.85, 0.625, 0.625, 0.40, 0.2])
    assert tier_factors(torch.tensor([2]), tensor([3.0])).tolist() == pytest.approx([0.85])
    assert tier_factors(torch.tensor([1, 1]), tensor([5.0, 5.0])).tolist() == [1.0, 1.0]
    assert tier_factors(torch.tensor([], dtype=torch.int64), tensor([])).tolist() == []


def test_linear_mean_keeps_the_cap_away() -> None:
    """METHOD 4.2: f_min = .4 has mean .70 > 2/3 at uniform ranks; f = 1 for one pass."""
    for size in range(2, 17):
        found = linear_factors(torch.arange(size, dtype=torch.float64), low=0.4)
        assert found.mean().item() == pytest.approx(0.70)
        assert (found[0].item(), found[-1].item()) == pytest.approx((1.0, 0.4))
    assert linear_factors(tensor([0.0]), low=0.4).tolist() == [1.0]


def test_geometric() -> None:
    found = geometric_factors(torch.arange(4, dtype=torch.float64), ratio=0.8, low=0.6)
    assert found.tolist() == pytest.approx([1, 0.8, 0.64, 0.6])


@given(st.lists(st.integers(0, 4), min_size=1, max_size=12))
def test_ties_share_their_mean_rank(scores: list[int]) -> None:
    ranks = mean_ranks(tensor([float(score) for score in scores]))
    assert ranks.sum().item() == pytest.approx(len(scores) * (len(scores) - 1) / 2)
    for score, rank in zip(scores, ranks.tolist(), strict=True):
        places = [at for at, other in enumerate(sorted(scores, reverse=True)) if other == score]
        assert rank == pytest.approx(sum(places) / len(places))


def test_scores_and_strengths() -> None:
    assert score_factors(tensor([1, 3, 5]), low=0.2).tolist() == pytest.approx([0.2, 0.6, 1.0])
    assert strength_factors(tensor([-1, 0, 1]), low=0.4).tolist() == pytest.approx([0.4, 0.7, 1.0])
    assert strength_factors(tensor([0.3, 0.3]), low=0.4).tolist() == [1.0, 1.0]
    assert strength_factors(tensor([]), low=0.4).tolist() == []


@given(st.lists(st.floats(-3, 3), min_size=1, max_size=10), st.floats(0.05, 1))
def test_every_map_gives_usable_factors_in_rank_order(scores: list[float], low: float) -> None:
    """(0, 1], and a better score never gets a smaller factor."""
    score = tensor(scores)
    ranks = mean_ranks(score)
    order = score.argsort(descending=True)
    for found in (
        linear_factors(ranks, low=low),
        geometric_factors(ranks, ratio=0.8, low=low),
        strength_factors(score, low=low),
    ):
        assert ((found > 0) & (found <= 1 + 1e-12)).all()
        assert (found[order].diff() <= 1e-12).all()
