"""Losses of other recipes, for comparison: DAPO, GSPO, CISPO, TIS; the recipe's own is in `loss`.

DAPO 2503.14476: -min(r A, clip(r, 1 - low, 1 + high) A). CISPO 2506.13585: -sg(clip(r, low, high)) A log pi.
TIS: -sg(min(r, C)) A log pi. GSPO 2507.18071: s = exp(mean_t log r), -min(s A, clip(s, 1 - low, 1 + high) A)
per rollout. r = pi / mu. A weight per token (or rollout) makes any mean; see `loss_weights`. Source: METHOD
11.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mimo.algo.groups import group_sum


def _log_ratio(policy_logprobs: Tensor, sampler_logprobs: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, policy_logprobs - sampler_logprobs, 0)


def _clipped(ratio: Tensor, advantages: Tensor, low: float, high: float) -> Tensor:
    return -torch.minimum(ratio * advantages, ratio.clamp(1 - low, 1 + high) * advantages)


def dapo_loss(
    policy_logprobs: Tensor,
    sampler_logprobs: Tensor,
    advantages: Tensor,
    weights: Tensor,
    mask: Tensor,
    *,
    low: float,
    high: float,
) -> Tensor:
    """Scalar; all tensors of one shape, weights per token. PPO is low = high (0.2); DAPO 0.2 and 0.28."""
    ratio = _log_ratio(policy_logprobs, sampler_logprobs, mask).exp()
    factor = torch.where(mask, weights, 0)
    return (_clipped(ratio, torch.where(mask, advantages, 0), low, high) * factor).sum()


def cispo_loss(
    policy_logprobs: Tensor,
    sampler_logprobs: Tensor,
    advantages: Tensor,
    weights: Tensor,
    mask: Tensor,
    *,
    low: float,
    high: float,
) -> Tensor:
    """Scalar; every token keeps a gradient, its weight clipped to [low, high] ([0, 5])."""
    ratio = _log_ratio(policy_logprobs, sampler_logprobs, mask).detach().exp().clamp(low, high)
    factor = torch.where(mask, ratio * advantages * weights, 0)
    return -(factor * torch.where(mask, policy_logprobs, 0)).sum()


def tis_loss(
    policy_logprobs: Tensor,
    sampler_logprobs: Tensor,
    advantages: Tensor,
    weights: Tensor,
    mask: Tensor,
    *,
    cap: float,
) -> Tensor:
    """Scalar; truncated importance sampling, CISPO with the interval [0, cap] (2)."""
    return cispo_loss(policy_logprobs, sampler_logprobs, advantages, weights, mask, low=0.0, high=cap)


def gspo_loss(
    policy_logprobs: Tensor,
    sampler_logprobs: Tensor,
    advantages: Tensor,
    weights: Tensor,
    mask: Tensor,
    *,
    rollout: Tensor,
    low: float,
    high: float,
) -> Tensor:
    """Scalar; one ratio per rollout, so tokens are [tokens] and `advantages`, `weights` are [rollouts].

    Args:
        weights: [rollouts], 1 / n for the mean over rollouts; a rollout without trained tokens counts 0.
        rollout: [tokens] int64, the rollout of each token.
        low: 3e-4 in the paper; `high` 4e-4.
    """
    count = group_sum(mask, rollout, len(advantages))
    mean = group_sum(_log_ratio(policy_logprobs, sampler_logprobs, mask), rollout, len(advantages))
    ratio = (mean / count.clamp(min=1)).exp()
    return torch.where(count > 0, _clipped(ratio, advantages, low, high) * weights, 0).sum()
