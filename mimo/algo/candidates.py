"""Top-p candidate-set replay: the trainer's log-probabilities on the support the engine sampled from.

With top-p sampling mu is renormalised over a candidate set; pi must be renormalised over the same set, or pi
/ mu compares two supports. log pi_S(y) = logit(y) - logsumexp_{v in S} logit(v). Source: MiMo-V2.6 report;
METHOD 2.
"""

from __future__ import annotations

import torch
from torch import Tensor


def renormalized_logprobs(logits: Tensor, sampled: Tensor, candidates: Tensor) -> Tensor:
    """[tokens] log-probability of `sampled` within its candidate set, with gradient.

    -inf where the sampled token is not in its set (a record that contradicts itself; the loss masks it).

    Args:
        logits: [tokens, vocab], already divided by the sampling temperature.
        sampled: [tokens] int64. `candidates`: [tokens, k] int64, padded with -1.
    """
    present = candidates >= 0
    inside = torch.where(present, logits.gather(1, candidates.clamp(min=0)), -torch.inf)
    own = logits.gather(1, sampled[:, None]).squeeze(1)
    found = (candidates == sampled[:, None]).any(1)
    # A set without its token would put -inf minus -inf into the gradient; the plain softmax stands in there.
    norm = torch.where(found, torch.logsumexp(torch.where(found[:, None], inside, 0), 1), 0)
    return torch.where(found, own - norm, -torch.inf)


def top_p_candidates(logits: Tensor, *, top_p: float) -> Tensor:
    """[tokens, vocab] bool: the smallest set of most likely tokens whose probability reaches `top_p`.

    The most likely token is always in; at ties the lower token id comes first.
    """
    probabilities, order = torch.softmax(logits, -1).sort(stable=True, dim=-1, descending=True)
    before = probabilities.cumsum(-1) - probabilities
    return torch.zeros_like(before, dtype=torch.bool).scatter(-1, order, before < top_p)
