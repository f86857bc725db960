"""Token penalty with conserved mass: flagged tokens lose, unflagged ones of the same sign absorb.

A > 0: alpha (1-h) A, alpha = min(alpha_max, 1 + H+/C+).  A < 0: (beta (1-h) + kappa h) A, beta =
max(beta_min, 1 - (kappa-1) H-/C-).  H, C: weighted |A| over flagged, unflagged tokens of the whole batch,
split by the sign of the rollout's advantage. A denominator of 0 leaves that scale at 1.
Sources: MiMo-V2.6 report Eq. 5, 4.3.3; weighted masses: METHOD 6.2.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class TokenScales(NamedTuple):
    """Batch-wide scalars: of unflagged positive, of unflagged negative, of flagged negative tokens.

    `alpha_free` and `beta_free` are the values before the clamps; conservation holds iff they are equal to
    `alpha` and `beta` and each side with flags has unflagged mass.
    """

    alpha: Tensor
    beta: Tensor
    kappa: Tensor
    alpha_free: Tensor
    beta_free: Tensor


class MassBalance(NamedTuple):
    """Weighted mass of each sign before and after; the negative ones are <= 0."""

    pos_before: Tensor
    pos_after: Tensor
    neg_before: Tensor
    neg_after: Tensor


def token_masses(advantages: Tensor, weights: Tensor, tokens: Tensor, flagged: Tensor) -> Tensor:
    """[4] H+, C+, H-, C-, all >= 0: add them over all ranks before `token_scales`.

    Args:
        advantages: [rollouts] final rollout advantages.
        weights: [rollouts] loss weight of each of its tokens.
        tokens: [rollouts] int64 trained tokens; `flagged` [rollouts] int64 those of them that are flagged.
    """
    mass = advantages.abs() * weights
    hit, clean = mass * flagged, mass * (tokens - flagged)
    up, down = advantages > 0, advantages < 0
    return torch.stack([torch.where(side, part, 0).sum() for side in (up, down) for part in (hit, clean)])


def token_scales(
    masses: Tensor, *, kappa: float, alpha_max: float, beta_min: float, skip_if_no_absorber: bool
) -> TokenScales:
    """The scales of the batch from the four masses [4] of `token_masses`, summed over all ranks.

    Args:
        kappa: >= 1, how much a flagged token of a negative rollout is magnified.
        alpha_max: >= 1. `beta_min`: in (0, 1]; 0 or less would let signs flip.
        skip_if_no_absorber: True leaves flagged negative tokens alone when no unflagged negative mass exists.
    """
    hit_up, clean_up, hit_down, clean_down = masses
    one = torch.ones_like(hit_up)
    alpha_free = torch.where(clean_up > 0, 1 + hit_up / clean_up, one)
    beta_free = torch.where(clean_down > 0, 1 - (kappa - 1) * hit_down / clean_down, one)
    alone = skip_if_no_absorber & (clean_down <= 0)
    magnified = torch.where(torch.as_tensor(alone), one, one * kappa)
    return TokenScales(
        alpha_free.clamp(max=alpha_max), beta_free.clamp(min=beta_min), magnified, alpha_free, beta_free
    )


def mass_balance(masses: Tensor, scales: TokenScales) -> MassBalance:
    """Signed masses before and after; equal per side when no clamp acts and each side has unflagged mass."""
    hit_up, clean_up, hit_down, clean_down = masses
    after = -(scales.beta * clean_down + scales.kappa * hit_down)
    return MassBalance(hit_up + clean_up, scales.alpha * clean_up, -(hit_down + clean_down), after)


def penalized(advantages: Tensor, scales: TokenScales) -> tuple[Tensor, Tensor]:
    """([rollouts] advantage of unflagged tokens, [rollouts] of flagged tokens). No sign flips; 0 stays 0."""
    up = advantages > 0
    clean = torch.where(up, scales.alpha, scales.beta) * advantages
    return clean, torch.where(up, 0, scales.kappa * advantages)
