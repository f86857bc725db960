"""Which groups a batch accepts: mixed outcomes for plain and GAR, spread of rewards for GRS.

Plain, GAR: 0 < k < N. GRS: max R - min R > epsilon, or the all-pass groups GRS exists for were lost. Always
at least two valid rollouts. Tested before the length penalty. Sources: MiMo-V2.6 report 4.3; METHOD 3.3, 7
(4).
"""

from __future__ import annotations

import torch
from torch import Tensor

from mimo.algo.batch import METHODS
from mimo.algo.groups import group_spread, group_sum

NO_SPREAD = 4


def accept_reasons(
    rewards: Tensor,
    passed: Tensor,
    valid: Tensor,
    group: Tensor,
    method: Tensor,
    *,
    epsilon: float,
    ungraded: Tensor,
) -> Tensor:
    """[groups] int64: 0 = accepted, else an index into `outcomes.REASONS`.

    Args:
        rewards: [rollouts] after the leak reset, before the length penalty.
        passed: [rollouts] bool after the leak reset; `valid` [rollouts] bool.
        method: [groups] int64, an index into METHODS.
        ungraded: [rollouts] bool: GRS passes masked for want of a score; names the reason only.
    """
    num_groups = len(method)
    count, passes = (group_sum(member, group, num_groups) for member in (valid, passed & valid))
    missing = group_sum(ungraded, group, num_groups) > 0
    flat = group_spread(rewards, valid, group, num_groups) <= epsilon
    grs = method == METHODS.index("grs")
    by_rate = torch.where(passes == 0, 2, torch.where(passes == count, 3, 0))
    reason = torch.where(grs, torch.where(flat, NO_SPREAD, 0), by_rate)
    return torch.where(count >= 2, reason, torch.where(missing, 5, 1))
