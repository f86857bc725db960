"""Masked importance-sampling loss: REINFORCE with stale tokens weighted by pi/mu or left out.

L = - sum_t w_t r_t M_t A_t log pi(o_t),  r = sg[pi / mu],  M = 1 if lo <= r <= hi; the interval is the
positive one for A >= 0, the negative one for A < 0; both start at [0.2, 5.0]. The gradient of a kept token is
the exact token-level importance-sampled policy gradient; a masked token has none (CISPO would keep a clipped
weight). Left out: PPO's min and clip, reference KL, value model. Source: MiMo-V2.6 report Eq. 1, 5.1; METHOD
2.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class MaskBounds(NamedTuple):
    """Inclusive intervals of pi/mu in which a token trains, by the sign of its advantage."""

    positive_low: float
    positive_high: float
    negative_low: float
    negative_high: float


class LossCounts(NamedTuple):
    """Tokens by side, int64 scalars; a zero advantage is on neither side, `kept` counts both sides.

    The four `..._low`, `..._high` are tokens left out below and above their interval; `nonfinite` are tokens
    whose ratio is NaN (left out, whatever their side; an infinite ratio counts as high).
    """

    positive: Tensor
    negative: Tensor
    kept: Tensor
    positive_low: Tensor
    positive_high: Tensor
    negative_low: Tensor
    negative_high: Tensor
    nonfinite: Tensor


def masked_importance_loss(
    policy_logprobs: Tensor,
    sampler_logprobs: Tensor,
    advantages: Tensor,
    weights: Tensor,
    mask: Tensor,
    *,
    bounds: MaskBounds,
) -> tuple[Tensor, LossCounts]:
    """(scalar loss, counts): add both over micro-batches and ranks; the sum is the loss of the whole batch.

    All tensors have one shape, [tokens] or [batch, seq]. Tokens outside `mask` are not read: they may be NaN.

    Args:
        policy_logprobs: the trainer's, with gradient.
        sampler_logprobs: the engine's, as recorded when the token was sampled; never recomputed.
        advantages: per token, final (after the token penalty); detached here.
        weights: per token, already global (`loss_weights`).
        mask: bool, True = a trained token.
    """
    advantage = torch.where(mask, advantages, 0).detach()
    ratio = torch.where(mask, policy_logprobs - sampler_logprobs, 0).detach().exp()
    up, down = mask & (advantage > 0), mask & (advantage < 0)
    limits = ratio.new_tensor(bounds)
    low = torch.where(down, limits[2], limits[0])
    high = torch.where(down, limits[3], limits[1])
    below, above = ratio < low, ratio > high
    keep = mask & (ratio >= low) & (ratio <= high)
    factor = torch.where(keep, ratio * advantage * weights, 0).detach()
    # Selecting before the product keeps a NaN or -inf of a masked token out of the gradient.
    loss = -(factor * torch.where(keep, policy_logprobs, 0)).sum()
    counts = (up, down, keep & (up | down), up & below, up & above, down & below, down & above)
    return loss, LossCounts(*(count.sum() for count in (*counts, mask & ratio.isnan())))
