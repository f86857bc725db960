"""Sums, means and extremes over ragged groups: one scatter, nothing padded, nothing quadratic.

`group` [rollouts] int64 holds each rollout's group number in [0, num_groups), in any order.
"""

from __future__ import annotations

import torch
from torch import Tensor


def group_sum(values: Tensor, group: Tensor, num_groups: int) -> Tensor:
    """[groups] sum of `values` [rollouts]; 0 for an empty group. Booleans are counted as int64."""
    if values.dtype == torch.bool:
        values = values.long()
    return values.new_zeros(num_groups).index_add(0, group, values)


def group_mean(values: Tensor, counted: Tensor, group: Tensor, num_groups: int) -> Tensor:
    """[groups] mean of `values` over the rollouts in `counted` [rollouts] bool; 0 where none is counted."""
    total = group_sum(torch.where(counted, values, 0), group, num_groups)
    return total / group_sum(counted, group, num_groups).clamp(min=1).to(values.dtype)


def group_spread(values: Tensor, counted: Tensor, group: Tensor, num_groups: int) -> Tensor:
    """[groups] max - min of `values` over the rollouts in `counted`; 0 where none is counted."""
    low = _extreme(torch.where(counted, values, torch.inf), group, num_groups, "amin")
    high = _extreme(torch.where(counted, values, -torch.inf), group, num_groups, "amax")
    return (high - low).clamp(min=0)


def _extreme(values: Tensor, group: Tensor, num_groups: int, reduce: str) -> Tensor:
    start = values.new_full((num_groups,), torch.inf if reduce == "amin" else -torch.inf)
    return start.scatter_reduce(0, group, values, reduce)


def per_rollout(setting: Tensor | float, group: Tensor) -> Tensor | float:
    """A setting as it applies to each rollout: `[groups]` is looked up by group, a scalar stays one."""
    return setting[group] if isinstance(setting, Tensor) and setting.ndim else setting
