"""Advantages and losses of multi-teacher on-policy distillation: reverse KL on what the student sampled.

Sampled token: A_t = sg[clip(log piT - log pi, -clip, clip)] + alpha A_outcome, then the recipe's loss (k1 as
reward, whose gradient is that of the reverse KL). Top-k hybrid, unbiased with less variance, S a set of
tokens: sum_{v in S} sg[gap(v)] p(v) + 1[y not in S] sg[gap(y)] log p(y), gap = log p - log q. Full
vocabulary: S is all. "Gradient of the reverse KL" holds per position, the student's own prefixes held fixed.
Sources: MiMo-V2-Flash report 2601.02780 Eq. 5-9 (no clip); clip 5: MOPD paper 2606.30406; METHOD 10.1-10.3.
"""

from __future__ import annotations

import torch
from torch import Tensor


def mopd_advantages(
    policy_logprobs: Tensor, teacher_logprobs: Tensor, outcome: Tensor, *, alpha: float, clip: float
) -> Tensor:
    """[tokens] detached advantages; 0 where teacher and student agree and `alpha` or `outcome` is 0.

    Args:
        outcome: [tokens] outcome advantage of the token's rollout, 0 for teacher- and SFT-prefix samples.
        clip: bound of the teacher's part; inf for none.
    """
    gap = (teacher_logprobs - policy_logprobs).detach().clamp(-clip, clip)
    return gap + alpha * outcome


def hybrid_loss(
    candidate_logprobs: Tensor,
    candidate_teacher_logprobs: Tensor,
    policy_logprobs: Tensor,
    teacher_logprobs: Tensor,
    sampled_inside: Tensor,
    *,
    ratio: Tensor,
    weights: Tensor,
) -> Tensor:
    """Scalar whose gradient is that of the reverse KL, in expectation over the sampled token.

    Args:
        candidate_logprobs: [tokens, k] the student's over S, with gradient; the teacher's beside it.
        policy_logprobs: [tokens] of the sampled token, with gradient; the teacher's beside it.
        sampled_inside: [tokens] bool: the sampled token is in S.
        ratio: [tokens] sg[pi / mu] after masking (1 when fresh); scales the sampled part only.
        weights: [tokens] loss weights.
    """
    gap = (candidate_logprobs - candidate_teacher_logprobs).detach()
    inside = (gap * candidate_logprobs.exp()).sum(-1)
    own = (policy_logprobs - teacher_logprobs).detach() * ratio.detach() * policy_logprobs
    return ((inside + torch.where(sampled_inside, 0, own)) * weights).sum()


def full_vocabulary_loss(policy_logprobs: Tensor, teacher_logprobs: Tensor, weights: Tensor) -> Tensor:
    """Scalar sum of weighted reverse KLs; [tokens, vocab] log-probabilities, exact gradient, no sampling."""
    return ((policy_logprobs.exp() * (policy_logprobs - teacher_logprobs)).sum(-1) * weights).sum()
