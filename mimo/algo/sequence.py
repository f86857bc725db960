"""Steps 1 to 7 of the order of operations: from verdicts and grades to one advantage per rollout.

Infra mask, leak reset, base reward, accept filter, length penalty, centring, GAR. Leaks come before the
filter: a reset can turn an all-pass group into a mixed one. The filter comes before lengths: their spread
must not rescue an all-pass group. Lengths come before centring: the group still sums to 0. Source: METHOD 7.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from mimo.algo.accept import NO_SPREAD, accept_reasons
from mimo.algo.batch import METHODS, Batch, Settings
from mimo.algo.gar import OK, Redistribution, redistributed
from mimo.algo.group_advantages import group_advantages
from mimo.algo.groups import group_spread, per_rollout
from mimo.algo.length_penalty import length_penalties
from mimo.algo.outcomes import GroupOutcomes, RolloutOutcomes
from mimo.algo.reward import grs_rewards, leak_reset, ungraded

LengthPosition = Literal["reward", "post_gar"]


def sequence_advantages(
    batch: Batch, settings: Settings, *, spread_epsilon: float, length_position: LengthPosition
) -> tuple[RolloutOutcomes, GroupOutcomes]:
    """Outcomes per rollout and per group; every group's advantages sum to 0 if `recentre` holds.

    Args:
        spread_epsilon: the largest max - min of a group's rewards that counts as no spread. length_position:
        `reward` is the recipe; `post_gar` subtracts the penalty from the advantages after GAR
            and centres again (GRS groups keep `reward`, where the penalty multiplies).
    """
    group, num_groups = batch.group, len(settings.method)
    grs = settings.method == METHODS.index("grs")
    valid, passed, reward = _base_rewards(batch, settings, grs)
    reason = accept_reasons(
        reward, passed, valid, group, settings.method, epsilon=spread_epsilon, ungraded=batch.valid & ~valid
    )
    inside = valid & (reason == 0)[group]
    penalty, reference = length_penalties(
        batch.length, passed, inside, group, num_groups, penalty=settings.length
    )
    late = (~grs & (length_position == "post_gar"))[group]
    reward = _docked(reward, torch.where(late, 0, penalty), grs[group])
    flat = group_spread(reward, inside, group, num_groups) <= spread_epsilon
    reason = torch.where((reason == 0) & flat, NO_SPREAD, reason)
    inside = inside & (reason == 0)[group]
    moved = _redistribution(
        group_advantages(reward, inside, group, num_groups), batch, settings, passed, inside
    )
    docked = group_advantages(moved.advantages - penalty, inside, group, num_groups)
    advantage = torch.where(late, docked, moved.advantages)
    reward = torch.where(valid, reward, 0)
    rollouts = RolloutOutcomes(valid, passed, reward, penalty, advantage)
    return rollouts, _group_outcomes(reason, moved, reference, settings.method == METHODS.index("gar"))


def _base_rewards(batch: Batch, settings: Settings, grs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Steps 1 to 3: (valid, passed, reward) [rollouts]; `grs` [groups] bool."""
    reward, passed = leak_reset(batch.reward, batch.passed, batch.leak)
    product = grs_rewards(
        reward, batch.solution, batch.behavior, passed, floor=per_rollout(settings.floor, batch.group)
    )
    is_grs = grs[batch.group]
    missing = is_grs & batch.valid & ungraded(batch.solution, batch.behavior, passed)
    return batch.valid & ~missing, passed, torch.where(is_grs, product, reward)


def _docked(reward: Tensor, penalty: Tensor, grs: Tensor) -> Tensor:
    """Step 5: R - penalty; for GRS R (1 - penalty), never below 0."""
    return torch.where(grs, reward * (1 - penalty).clamp(min=0), reward - penalty)


def _redistribution(
    advantages: Tensor, batch: Batch, settings: Settings, passed: Tensor, inside: Tensor
) -> Redistribution:
    """Step 7 on GAR groups; the others have no pass that takes part."""
    gar = (settings.method == METHODS.index("gar"))[batch.group]
    return redistributed(
        advantages,
        batch.quality,
        passed & inside & gar,
        inside,
        batch.group,
        num_groups=len(settings.method),
        cap=settings.cap,
        keep=settings.keep,
        recentre=settings.recentre,
    )


def _group_outcomes(reason: Tensor, moved: Redistribution, reference: Tensor, gar: Tensor) -> GroupOutcomes:
    accepted = reason == 0
    return GroupOutcomes(
        accepted=accepted,
        reason=reason,
        redistributed=gar & accepted & (moved.fallback == OK),
        scale=moved.scale,
        scale_applied=moved.scale_applied,
        capped=moved.capped,
        deficit=moved.deficit,
        fallback=torch.where(gar & accepted, moved.fallback, OK),
        length_reference=reference,
    )
