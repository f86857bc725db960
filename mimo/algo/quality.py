"""From a grader's ranks, scores or tiers of one group's passes to quality factors f in (0, 1].

Tiers of the GAR paper: T1 best 1.0, other T1 0.9; T2 by tie-group rank kk of K2: 0.85 - 0.45 kk / (K2 - 1);
T3 0.2. Linear: f_min + (1 - f_min)(1 - rank / (n - 1)). Geometric: max(rho^rank, f_min). Ties share a factor.
Sources: GAR paper 2609.32577 (tiers, weights of the five dimensions); METHOD 4.2, 12 (the rest, choices).
"""

from __future__ import annotations

import torch
from torch import Tensor

DIMENSIONS = ("approach", "precision", "minimality", "side_effects", "craftsmanship")
DIMENSION_WEIGHTS = (0.30, 0.25, 0.20, 0.15, 0.10)


def weighted_scores(scores: Tensor) -> Tensor:
    """[passes] weighted score in [1, 5] from `scores` [passes, 5] in the order of DIMENSIONS."""
    return (scores * scores.new_tensor(DIMENSION_WEIGHTS)).sum(-1)


def tiers(scores: Tensor, serious_problem: Tensor, confirmed_bypass: Tensor) -> Tensor:
    """[passes] int64 tier 1, 2 or 3; T3 is tested first, then T1.

    Args:
        scores: [passes, 5], integers 1 to 5 in the order of DIMENSIONS.
        serious_problem: [passes] bool: a serious process problem or an unresolved regression; bars T1.
        confirmed_bypass: [passes] bool: an unrequested rewrite or a bypass fitted to the tests; forces T3.
    """
    approach, minimality, side_effects = scores[:, 0], scores[:, 2], scores[:, 3]
    third = confirmed_bypass | (approach <= 1) | ((minimality <= 2) & (side_effects <= 2))
    first = (scores >= 4).all(-1) & ~serious_problem
    return torch.where(third, 3, torch.where(first, 1, 2))


def tier_factors(tier: Tensor, score: Tensor) -> Tensor:
    """[passes] factors by tier, and by `score` (higher is better) within T1 and T2.

    A tie at the top of T1 gives 1.0 to all of it. T2 with one tie group gives 0.85.
    """
    best = torch.where(tier == 1, score, -torch.inf).amax() if len(score) else score
    levels = torch.unique(score[tier == 2])
    rank = len(levels) - 1 - torch.searchsorted(levels, score.contiguous())
    second = 0.85 - (0.85 - 0.40) * rank.to(score.dtype) / max(len(levels) - 1, 1)
    first = torch.where(score == best, 1.0, 0.9).to(score.dtype)
    return torch.where(tier == 1, first, torch.where(tier == 2, second, 0.2))


def mean_ranks(score: Tensor) -> Tensor:
    """[passes] ranks from 0 (highest score); tied passes share the mean of their places."""
    higher = (score[None, :] > score[:, None]).sum(1)
    tied = (score[None, :] == score[:, None]).sum(1)
    return higher.to(score.dtype) + (tied - 1).to(score.dtype) / 2


def linear_factors(rank: Tensor, *, low: float) -> Tensor:
    """[passes] factors falling evenly from 1 to `low` over ranks 0 to n-1; 1 for a single pass.

    With `low` 0.4 and no ties the mean is 0.70 > 1 / 1.5, so GAR's cap never binds.
    """
    return low + (1 - low) * (1 - rank / max(len(rank) - 1, 1))


def geometric_factors(rank: Tensor, *, ratio: float, low: float) -> Tensor:
    """[passes] ratio ** rank, never below `low`."""
    return (ratio**rank).clamp(min=low)


def score_factors(score: Tensor, *, low: float) -> Tensor:
    """[passes] factors from weighted scores in [1, 5]: `low` at 1, 1 at 5."""
    return low + (1 - low) * (score - 1) / 4


def strength_factors(strength: Tensor, *, low: float) -> Tensor:
    """[passes] factors from Bradley-Terry strengths, `low` (weakest) to 1 (strongest); all 1 in a tie."""
    if not len(strength):
        return strength
    span = strength.amax() - strength.amin()
    place = torch.where(span > 0, (strength - strength.amin()) / span, 1)
    return low + (1 - low) * place
