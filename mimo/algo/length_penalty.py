"""Group-relative length penalty on passing rollouts, measured against a quantile of the passes themselves.

If k/N > gate: l* = quantile(percentile) of the passes' lengths, linear interpolation;
pen_i = max * clip((l_i/l* - 1 - deadzone) / (saturation - deadzone), 0, 1)^exponent on passes, 0 elsewhere.
Source: MiMo-V2.6 report Eq. 4; METHOD 5.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from mimo.algo.groups import group_sum, per_rollout


class LengthPenalty(NamedTuple):
    """The six constants, each a scalar or [groups]; `max` 0 switches the penalty off.

    Units: `max` is in reward, `deadzone` and `saturation` in excess over l* (1 = twice l*), `percentile`
    0-100, `gate` a pass rate. 0 <= deadzone < saturation, exponent >= 1.
    """

    max: Tensor | float
    deadzone: Tensor | float
    saturation: Tensor | float
    exponent: Tensor | float
    percentile: Tensor | float
    gate: Tensor | float


def length_references(
    lengths: Tensor, passed: Tensor, group: Tensor, num_groups: int, *, percentile: Tensor | float
) -> Tensor:
    """[groups] the quantile l* of the passes' lengths, as numpy's linear one; 0 where none passes."""
    order = torch.nonzero(passed).squeeze(1)
    order = order[torch.argsort(lengths[order], stable=True)]
    order = order[torch.argsort(group[order], stable=True)]
    if not len(order):
        return lengths.new_zeros(num_groups)
    count = group_sum(passed, group, num_groups)
    start = count.cumsum(0) - count
    position = (count - 1).clamp(min=0).to(lengths.dtype) * (percentile / 100)
    low = position.floor().long()
    high = torch.minimum(low + 1, (count - 1).clamp(min=0))
    lower, upper = (lengths[order[(start + at).clamp(max=len(order) - 1)]] for at in (low, high))
    value = lower + (upper - lower) * (position - low)
    return torch.where(count > 0, value, 0)


def length_penalties(
    lengths: Tensor, passed: Tensor, valid: Tensor, group: Tensor, num_groups: int, *, penalty: LengthPenalty
) -> tuple[Tensor, Tensor]:
    """([rollouts] penalty in [0, max], [groups] l*); l* is 0 where the penalty is off, gated or l* <= 0.

    A pass keeps its place above every failure iff max < 1 (binary rewards). A docked pass can fall below the
    mean: pen_i > A + mean(pen). Lengths are generated tokens (any positive unit), read only where passed.
    """
    member = passed & valid
    rate = group_sum(member, group, num_groups).to(lengths.dtype)
    rate = rate / group_sum(valid, group, num_groups).clamp(min=1)
    reference = length_references(lengths, member, group, num_groups, percentile=penalty.percentile)
    off = torch.as_tensor(penalty.max, device=lengths.device) <= 0
    reference = torch.where((rate > penalty.gate) & ~off & (reference > 0), reference, 0)
    docked = member & (reference > 0)[group]
    ratio = lengths / torch.where(docked, reference[group], 1)
    maximum, dead, full, exponent, _, _ = (per_rollout(setting, group) for setting in penalty)
    excess = ((ratio - 1 - dead) / (full - dead)).clamp(0, 1) ** exponent
    return torch.where(docked, maximum * excess, 0), reference


def combined_penalties(
    penalties: Tensor, *, how: Literal["max", "mean", "weighted"], weights: Tensor
) -> Tensor:
    """[rollouts] one penalty from those of several lengths (turns, input, output tokens) [metrics, rollouts].

    `weights` [metrics] is read by `weighted` only, which divides by their sum. The published fork takes
    `max`.
    """
    if how == "max":
        return penalties.amax(0)
    if how == "mean":
        return penalties.mean(0)
    return (weights[:, None] * penalties).sum(0) / weights.sum()
