"""Weight of each trained token in the loss, constant within a rollout.

prompt-mean: w = 1 / (n_prompts * T_g), every prompt counts the same (MiMo-V2.6 report Eq. 1). token-mean: w =
1 / T, long rollouts dominate (DAPO). sequence-mean: w = 1 / (n_rollouts * T_i) (GRPO). Counts are those of
the whole batch: sum `batch_totals` over the data-parallel ranks first. Source: METHOD 2, 7 (8).
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from mimo.algo.groups import group_sum

Aggregation = Literal["prompt-mean", "token-mean", "sequence-mean"]


def batch_totals(tokens: Tensor, counted: Tensor, group: Tensor, num_groups: int) -> Tensor:
    """[groups + 1] int64: trained tokens per group, then the number of rollouts that have any.

    Add these over all ranks (group numbers are global) before `loss_weights`; a group may lie on several
    ranks.

    Args:
        tokens: [rollouts] int64 trained tokens.
        counted: [rollouts] bool; dropped groups and invalid rollouts are False.
    """
    used = torch.where(counted, tokens, 0)
    return torch.cat([group_sum(used, group, num_groups), (used > 0).sum().reshape(1)])


def loss_weights(
    tokens: Tensor,
    counted: Tensor,
    group: Tensor,
    totals: Tensor,
    *,
    aggregation: Aggregation,
    dtype: torch.dtype,
) -> Tensor:
    """[rollouts] weight of each trained token of a rollout; 0 where not counted or without tokens.

    sum_i w_i * tokens_i = 1 over the batch for every aggregation, as long as one rollout counts.
    """
    per_group, rollouts = totals[:-1], totals[-1]
    used = counted & (tokens > 0)
    if aggregation == "prompt-mean":
        divisor = (per_group > 0).sum() * per_group[group]
    elif aggregation == "token-mean":
        divisor = per_group.sum().expand_as(tokens)
    else:
        divisor = rollouts * tokens
    return torch.where(used, 1 / divisor.clamp(min=1).to(dtype), 0)
