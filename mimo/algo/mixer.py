"""The sample mixer: how many prompts of each domain to submit, so that a batch keeps its shares.

Eq. 6: m_i = B_i / r_i; p_i = clip(c t_i - 1, p_min, p_max), c such that sum m_i p_i / sum m_i = p_mean.
Eq. 7: w_i = alpha B_i / r_i + (1 - alpha) (B_i - A_i)^+ / r_i, alpha = 0.5.
B_i batch share, r_i accept rate, t_i turnaround, A_i already available. Source: MiMo-V2.6 report; METHOD 9.
"""

from __future__ import annotations

import torch
from torch import Tensor


def over_provisioning(
    shares: Tensor, accept_rates: Tensor, turnarounds: Tensor, *, low: float, high: float, mean: float
) -> Tensor:
    """[domains] p_i, the share of prompts submitted on top of m_i; slow domains get more.

    c is found by bisection: the mean of p grows with c.

    Args:
        accept_rates: [domains] in (0, 1]; a domain that never accepts must get a floor first.
        turnarounds: [domains] > 0, any unit.
        mean: the demanded mean of p, weighted by m; low <= mean <= high.

    Raises:
        ValueError: no c gives that mean.
    """
    if not low <= mean <= high:
        raise ValueError(f"mean over-provisioning is {mean}; expected {low} to {high}")
    wanted = shares / accept_rates
    bottom, top = (1 + low) / turnarounds.amax(), (1 + high) / turnarounds.amin()
    for _ in range(100):
        middle = (bottom + top) / 2
        extra = (middle * turnarounds - 1).clamp(low, high)
        short = (wanted * extra).sum() < mean * wanted.sum()
        bottom, top = torch.where(short, middle, bottom), torch.where(short, top, middle)
    return (top * turnarounds - 1).clamp(low, high)


def submission_weights(shares: Tensor, available: Tensor, accept_rates: Tensor, *, alpha: float) -> Tensor:
    """[domains] unnormalised weights with which the next prompt's domain is drawn.

    Args:
        shares: [domains] B_i; `available` [domains] A_i in the same unit (groups, or shares of the batch).
        accept_rates: [domains] in (0, 1]: a domain with .25 is sampled four times as often to keep its share.
    """
    missing = (shares - available).clamp(min=0)
    return (alpha * shares + (1 - alpha) * missing) / accept_rates
