"""The numbers of one batch's learning signal, by METHOD 14 (names and meanings: docs/metrics.md).

A mean or a rate without a denominator is left out, never 0. Sums and counts are always there.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mimo.algo.batch import METHODS, Batch
from mimo.algo.group_advantages import group_advantages
from mimo.algo.outcomes import BatchAdvantages
from mimo.algo.spans import flagged_tokens


def signal_metrics(batch: Batch, result: BatchAdvantages, method: Tensor) -> dict[str, float]:
    """Every number of the batch; `method` [groups] indexes `mimo.algo.batch.METHODS`."""
    valid = result.rollouts.valid
    means = {
        "reward/mean": result.rollouts.reward[valid],
        "rollouts/pass_rate": batch.passed[batch.valid].double(),
        "advantage/abs_mean": result.rollouts.advantage[valid].abs(),
        "length/mean": batch.length[batch.valid],
        "grs/reward_mean": result.rollouts.reward[valid & (method == METHODS.index("grs"))[batch.group]],
    }
    counts = {
        "rollouts/invalid": (~batch.valid).sum(),
        "rollouts/hacks_reset": (batch.leak & batch.valid).sum(),
        "groups/total": torch.tensor(len(result.groups.accepted)),
        "groups/accepted": result.groups.accepted.sum(),
        "token_penalty/flagged_spans": torch.tensor(len(result.tokens.spans)),
    }
    return (
        {name: float(value) for name, value in counts.items()}
        | _means(means)
        | _length(batch, result)
        | _redistribution(batch, result, method)
        | _penalty(batch, result)
    )


def _length(batch: Batch, result: BatchAdvantages) -> dict[str, float]:
    """What the length penalty did in the accepted groups."""
    rollouts, groups = result.rollouts, result.groups
    inside = rollouts.valid & groups.accepted[batch.group]
    passes = inside & rollouts.passed
    docked = rollouts.length_penalty > 0
    with_pass = torch.zeros(len(groups.reason)).index_add(0, batch.group, passes.float()) > 0
    used = groups.length_reference > 0
    reference = groups.length_reference[batch.group]
    lengths = batch.length[passes]
    counts = {
        "groups_total": groups.accepted.sum(),
        "groups_with_pass": with_pass.sum(),
        "groups_skipped_low_pass_rate": (with_pass & ~used).sum(),
        "passed_rollouts": passes.sum(),
        "penalized_rollouts": docked.sum(),
        "penalty_sum": rollouts.length_penalty.sum(),
        "passes_below_mean": (passes & (rollouts.advantage < 0)).sum(),
    }
    means = {
        "penalize_rate": docked[passes].double(),
        "penalty_mean": rollouts.length_penalty[rollouts.valid],
        "excess_mean": batch.length[docked] / reference[docked] - 1,
        "reference_mean": groups.length_reference[used],
    }
    found = {name: float(value) for name, value in counts.items()} | _means(means)
    named = {f"length_penalty/{name}": value for name, value in found.items()}
    if len(lengths):
        for percent in (50, 90):
            named[f"length/pass_p{percent}"] = float(lengths.quantile(percent / 100))
    return named


def _redistribution(batch: Batch, result: BatchAdvantages, method: Tensor) -> dict[str, float]:
    """Mass of the passes of redistributed groups before and after GAR, by rollout and by token."""
    rollouts, groups = result.rollouts, result.groups
    inside = rollouts.valid & groups.accepted[batch.group]
    before = group_advantages(rollouts.reward, inside, batch.group, len(method))
    passes = inside & rollouts.passed & groups.redistributed[batch.group]
    found = {
        "redistributed_groups": groups.redistributed.sum(),
        "capped_groups": groups.capped.sum(),
        "fallback_groups": (groups.fallback > 0).sum(),
    }
    for name, values in (("before", before), ("after", rollouts.advantage)):
        gains = torch.where(passes, values, 0).clamp(min=0)
        found[f"positive_mass_{name}"] = gains.sum()
        found[f"token_mass_{name}"] = (gains * batch.tokens).sum()
    return {f"gar/{name}": float(value) for name, value in found.items()}


def _penalty(batch: Batch, result: BatchAdvantages) -> dict[str, float]:
    """The token penalty: its scales and clamps, tokens hit, and the weighted mass it moved, by sign."""
    tokens, advantage = result.tokens, result.rollouts.advantage
    if tokens.scales is None or tokens.balance is None:
        return {}
    scales = tokens.scales
    flagged = flagged_tokens(tokens.spans, len(batch.group))
    hit = torch.where(tokens.weight > 0, flagged, 0)
    mass = advantage.abs() * tokens.weight * hit
    up, down = advantage > 0, advantage < 0
    found = {
        **scales._asdict(),
        **tokens.balance._asdict(),
        "pos_hit_tokens": hit[up].sum(),
        "neg_hit_tokens": hit[down].sum(),
        "pos_scale_clamped": scales.alpha < scales.alpha_free,
        "neg_scale_clamped": scales.beta > scales.beta_free,
        "pos_mass_removed": mass[up].sum(),
        "neg_mass_added": (scales.kappa - 1) * mass[down].sum(),
    }
    return {f"token_penalty/{name}": float(value) for name, value in found.items()}


def _means(rows: dict[str, Tensor]) -> dict[str, float]:
    return {name: float(values.mean()) for name, values in rows.items() if len(values)}
