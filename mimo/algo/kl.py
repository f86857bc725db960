"""Kullback-Leibler estimators and entropy.

gap(v) = log p(v) - log q(v), p the student, q the teacher or reference, v sampled from p. k1 = gap, k2 =
gap^2 / 2, k3 = q/p - 1 - log(q/p). As a detached (negative) reward only k1 gives the gradient of KL(p||q);
back-propagated on student samples k2 gives it, k3 gives that of KL(q||p), k1 gives 0. k3 as reward vanishes
to second order as p approaches q. Sources: METHOD 10.3 (checked by enumeration in the tests).
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Estimator = Literal["k1", "k2", "k3"]


def kl_estimates(policy_logprobs: Tensor, reference_logprobs: Tensor, *, estimator: Estimator) -> Tensor:
    """Per-token estimates of KL(p||q) from tokens sampled from p; same shape, with gradient."""
    gap = policy_logprobs - reference_logprobs
    if estimator == "k1":
        return gap
    if estimator == "k2":
        return gap**2 / 2
    return torch.expm1(-gap) + gap


def kl_divergence(logprobs: Tensor, other_logprobs: Tensor) -> Tensor:
    """[...] exact KL(first||second) in nats over the last dimension of two log-probability tensors."""
    gap = torch.where(logprobs == -torch.inf, 0, logprobs - other_logprobs)
    return (logprobs.exp() * gap).sum(-1)


def entropy(logits: Tensor) -> Tensor:
    """[...] entropy in nats of the softmax over the last dimension; logits of -inf count as probability 0."""
    logprobs = torch.log_softmax(logits, -1)
    return -(logprobs.exp() * torch.where(logprobs == -torch.inf, 0, logprobs)).sum(-1)
