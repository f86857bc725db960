"""Groupwise Advantage Redistribution: quality moves advantage between passes, the passing total stays.

a+ = max(a, 0); lam = sum_P a+ / sum_P f a+; B = min(lam, cap) f a+ on the passes, a elsewhere; then B -
mean(B). With equal rewards on the passes this is A'_i = lam f_i A_i with lam = 1 / mean_P(f).
Sources: MiMo-V2.6 report Eq. 3 and 4.3.2; GAR paper 2609.32577 Eq. 8 and its cap 1.5; METHOD 4, 5.4.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mimo.algo.group_advantages import group_advantages
from mimo.algo.groups import group_sum, per_rollout

OK, BAD_QUALITY, NO_POSITIVE = 0, 1, 2


class Redistribution(NamedTuple):
    """What `redistributed` returns; `[groups]` fields hold 1, 1, False, 0 where a group fell back.

    `scale` is the free common factor lam, `scale_applied` the capped one, `deficit` the passing mass the cap
    took before recentring (D of METHOD 4.3), `fallback` one of OK, BAD_QUALITY, NO_POSITIVE.
    """

    advantages: Tensor
    scale: Tensor
    scale_applied: Tensor
    capped: Tensor
    deficit: Tensor
    fallback: Tensor


def redistributed(
    advantages: Tensor,
    quality: Tensor,
    passed: Tensor,
    valid: Tensor,
    group: Tensor,
    *,
    num_groups: int,
    cap: Tensor | float,
    keep: Tensor | bool,
    recentre: Tensor | bool,
) -> Redistribution:
    """Advantages after redistribution; a group with an unusable factor keeps its own.

    Conserved when the passes' rewards are equal and the cap does not bind: the passing total, every sign, the
    failures, and uniform quality changes nothing. Not conserved: a binding cap takes D(1 - k/N) of the total
    and damps uniform quality; with unequal rewards (length penalty) and `keep=False` a pass below the mean
    loses its negative advantage. Never conserved: token mass (better passes may be shorter).

    Args:
        advantages: [rollouts] centred; 0 where not valid. Failures' quality is never read.
        quality: [rollouts] in (0, 1], used as given; anything else on a pass (NaN too) is a fallback.
        cap: scalar or [groups]; inf = uncapped.
        keep: scalar or [groups]; True leaves passes below the mean as they are, False sets them to 0 (Eq. 8).
        recentre: scalar or [groups]; subtract the group's mean afterwards.
    """
    member = passed & valid
    giving = member & (advantages > 0)
    usable = (quality > 0) & (quality <= 1)
    weighted = torch.where(giving & usable, quality * advantages, 0)
    mass = group_sum(torch.where(giving, advantages, 0), group, num_groups)
    scale = mass / group_sum(weighted, group, num_groups)
    bad = group_sum(member & ~usable, group, num_groups) > 0
    fallback = torch.where(bad, BAD_QUALITY, torch.where(scale.isfinite(), OK, NO_POSITIVE))
    scale = torch.where(fallback == OK, scale, 1)
    applied = torch.minimum(scale, torch.as_tensor(cap, dtype=scale.dtype, device=scale.device))
    moved = torch.where(
        giving, applied[group] * weighted, torch.where(member & ~_flag(keep, group), 0, advantages)
    )
    centred = group_advantages(moved, valid, group, num_groups)
    result = torch.where(_flag(recentre, group), centred, moved)
    return Redistribution(
        advantages=torch.where((fallback == OK)[group], result, advantages),
        scale=scale,
        scale_applied=applied,
        capped=(fallback == OK) & (applied < scale),
        deficit=torch.where(fallback == OK, mass - applied * group_sum(weighted, group, num_groups), 0),
        fallback=fallback,
    )


def _flag(setting: Tensor | bool, group: Tensor) -> Tensor:
    return torch.as_tensor(per_rollout(setting, group), device=group.device)


def token_mass_scale(
    advantages: Tensor, quality: Tensor, passed: Tensor, tokens: Tensor, group: Tensor, *, num_groups: int
) -> Tensor:
    """[groups] the common factor that would conserve the passes' token mass instead: sum |o|a+ / sum |o|f a+.

    For comparison and for logging: the recipe conserves sum a, while its loss weighs a rollout by its tokens.
    NaN without positive mass. Source: METHOD 4.3 (a choice, not in the papers).
    """
    mass = torch.where(passed, advantages.clamp(min=0), 0) * tokens
    return group_sum(mass, group, num_groups) / group_sum(mass * quality, group, num_groups)
