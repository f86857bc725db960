"""Weights of distillation samples by type and domain, and the choice of a prefix position.

L = sum_{eta,d} rho_d zeta_eta mean_{s in (eta,d)} l_s with l_s = -(1/|y_s|) sum_t ...; so a token of sample s
weighs rho_d zeta_eta / (n_{eta,d} |y_s|). Prefix of turn t is drawn with p_t proportional to decay^t.
Sources: MOPD2 prints neither weights nor equation (METHOD 10.2, derived); decay .6: ReOPD 2607.04763.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mimo.algo.groups import group_sum


def sample_weights(
    kind: Tensor, domain: Tensor, tokens: Tensor, *, kind_weights: Tensor, domain_weights: Tensor
) -> Tensor:
    """[samples] weight of each trained token; 0 for a sample without tokens.

    A (type, domain) cell without samples contributes nothing, and the others are not raised for it.

    Args:
        kind: [samples] int64 index into `kind_weights` [kinds] (zeta); `domain` likewise (rho).
        tokens: [samples] int64 trained tokens.
    """
    cell = kind * len(domain_weights) + domain
    count = group_sum(tokens > 0, cell, len(kind_weights) * len(domain_weights))[cell]
    weight = kind_weights[kind] * domain_weights[domain]
    return torch.where(tokens > 0, weight / (count * tokens).clamp(min=1).to(weight.dtype), 0)


def prefix_probabilities(num_turns: int, *, decay: float, dtype: torch.dtype) -> Tensor:
    """[turns] chance of each turn to be the one sampled anew; early turns are favoured for decay < 1."""
    power = decay ** torch.arange(num_turns, dtype=dtype)
    return power / power.sum()
