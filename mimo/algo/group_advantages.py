"""Group-relative advantages: A_i = R_i - mean(R) over the valid rollouts of the group.

No standard deviation and no KL term in the recipe; dividing by the standard deviation is here for comparison.
Sources: MiMo-V2.6 report Eq. 1, 4.3 (mean only); Dr. GRPO 2503.20783 (no std); GRPO (std); METHOD 2, 7 (step
6).
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from mimo.algo.groups import group_mean, group_sum

Std = Literal["none", "population", "sample"]


def group_advantages(rewards: Tensor, valid: Tensor, group: Tensor, num_groups: int) -> Tensor:
    """[rollouts] reward minus the mean of the group's valid rollouts; 0 where not valid.

    Every group sums to 0 up to rounding. A group with one valid rollout gets exactly 0.

    Args:
        rewards: [rollouts]; read only where `valid`.
        valid: [rollouts] bool; infrastructure failures are False and leave the statistics.
    """
    centre = group_mean(rewards, valid, group, num_groups)
    return torch.where(valid, rewards - centre[group], 0)


def divided_by_std(
    advantages: Tensor, valid: Tensor, group: Tensor, num_groups: int, *, std: Std, epsilon: float
) -> Tensor:
    """[rollouts] centred advantages over (standard deviation + epsilon); unchanged for `std="none"`.

    With the population std and binary rewards the passing total becomes sqrt(k(N-k)), so 1.20 has no solution
    (METHOD 4.4). A group of one valid rollout gives 0, where verl gives the full reward.
    """
    if std == "none":
        return advantages
    count = group_sum(valid, group, num_groups)
    squares = group_sum(torch.where(valid, advantages**2, 0), group, num_groups)
    divisor = (count - 1 if std == "sample" else count).clamp(min=1).to(advantages.dtype)
    return advantages / ((squares / divisor).sqrt() + epsilon)[group]
