"""Rewards before any statistic: the reset of confirmed hacks, and GRS's product of test and quality.

Leak reset: R_i := 0 and the rollout no longer passes, before any group statistic, so that the mean and the
pass count are those of an honest group. GRS: R_i = R_test * S_solution * S_behavior, a failure stays exactly
0.
Sources: MiMo-V2.6 report 4.2.6, 4.3.2 (reset), Eq. 2 (GRS); METHOD 3, 8; floor: METHOD 3.1 (choice).
"""

from __future__ import annotations

import torch
from torch import Tensor


def leak_reset(rewards: Tensor, passed: Tensor, leak: Tensor) -> tuple[Tensor, Tensor]:
    """(rewards, passed) after every confirmed hack lost its reward and its pass; [rollouts] each.

    Equal to recomputing the group from zeroed rewards. A group whose only passes were hacks becomes all-fail:
    its advantages are 0, so it gives no signal against the hack (METHOD 4.7).
    """
    return torch.where(leak, 0, rewards), passed & ~leak


def grs_rewards(
    rewards: Tensor, solution: Tensor, behavior: Tensor, passed: Tensor, *, floor: Tensor | float
) -> Tensor:
    """[rollouts] rewards times both rubric scores where passed, exactly 0 where failed.

    A pass can end below the group's mean; that is the signal of an all-pass group. The positive mass shrinks
    with the scores (nothing conserves it). NaN scores of a pass stay NaN: mask the rollout (`ungraded`).

    Args:
        rewards: [rollouts] the test's reward, 1 for a pass.
        solution: [rollouts] in [0, 1], read only where passed; `behavior` likewise.
        floor: scalar or [rollouts]: each score is raised to it, so a pass never equals a failure if > 0.
    """
    low = torch.as_tensor(floor, dtype=rewards.dtype, device=rewards.device)
    product = rewards * torch.maximum(solution, low) * torch.maximum(behavior, low)
    return torch.where(passed, product, 0)


def ungraded(solution: Tensor, behavior: Tensor, passed: Tensor) -> Tensor:
    """[rollouts] bool: passes that lack a score (NaN); masked, since no answer is not a number."""
    return passed & (solution.isnan() | behavior.isnan())
