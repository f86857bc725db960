"""What the order of operations gives back: per rollout, per group, per token."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from mimo.algo.token_penalty import MassBalance, TokenScales

REASONS = (
    None,
    "fewer than two valid rollouts",
    "no rollout passes",
    "every rollout passes",
    "rewards have no spread",
    "fewer than two graded rollouts",
)
"""Why a group was dropped, by the code in `GroupOutcomes.reason`."""

FALLBACKS = (
    None,
    "a passing rollout has no quality in (0, 1]",
    "no passing rollout is above the mean",
)
"""Why a GAR group kept its own advantages, by the code in `GroupOutcomes.fallback`."""


class RolloutOutcomes(NamedTuple):
    """Per rollout after steps 1 to 7, every field [rollouts].

    `valid`: counted in the statistics (not failed, not ungraded). `passed`: after the leak reset. `reward`:
    what was centred, after the length penalty; 0 where not valid. `advantage`: 0 in dropped groups.
    """

    valid: Tensor
    passed: Tensor
    reward: Tensor
    length_penalty: Tensor
    advantage: Tensor


class GroupOutcomes(NamedTuple):
    """Per group after steps 1 to 7, every field [groups].

    `reason`, `fallback`: codes into REASONS, FALLBACKS. `redistributed`: GAR acted; `scale` (free),
    `scale_applied`, `deficit` (passing mass the cap took before recentring) are 1, 1, 0 where it did not.
    `length_reference`: l*, 0 where no length penalty applied.
    """

    accepted: Tensor
    reason: Tensor
    redistributed: Tensor
    scale: Tensor
    scale_applied: Tensor
    capped: Tensor
    deficit: Tensor
    fallback: Tensor
    length_reference: Tensor


class TokenOutcomes(NamedTuple):
    """After steps 8 to 10. [rollouts]: loss weight of a token, advantage of unflagged and of flagged tokens.

    `spans` [spans, 3]: the flags, disjoint and sorted. `scales`, `balance`: of the batch; None without
    penalty.
    """

    weight: Tensor
    clean: Tensor
    flagged: Tensor
    spans: Tensor
    scales: TokenScales | None
    balance: MassBalance | None


class BatchAdvantages(NamedTuple):
    """What `ordered_advantages` returns."""

    rollouts: RolloutOutcomes
    groups: GroupOutcomes
    tokens: TokenOutcomes
