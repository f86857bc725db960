"""The order of operations over a batch: METHOD 7, steps 1 to 10 (step 11, the mask, is in the loss).

`sequence_advantages` does 1 to 7; here groups drop out and get weights (8), a rollout's advantage goes to its
tokens (9) and the token penalty acts (10). Drops come before weights and masses: a dropped group counts in
neither. GAR comes before the token penalty, which needs final signs. Source: MiMo-V2.6 report 6.2; METHOD 7.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from mimo.algo.batch import Batch, Settings, TokenPenalty
from mimo.algo.loss_weights import Aggregation, batch_totals, loss_weights
from mimo.algo.outcomes import BatchAdvantages, GroupOutcomes, RolloutOutcomes, TokenOutcomes
from mimo.algo.sequence import LengthPosition, sequence_advantages
from mimo.algo.spans import flagged_tokens, merged_spans
from mimo.algo.token_penalty import mass_balance, penalized, token_masses, token_scales

Total = Callable[[Tensor], Tensor]


def ordered_advantages(
    batch: Batch,
    settings: Settings,
    *,
    aggregation: Aggregation,
    token_penalty: TokenPenalty | None,
    spread_epsilon: float,
    length_position: LengthPosition,
    total: Total,
) -> BatchAdvantages:
    """Rewards, advantages, loss weights and token values of a whole batch.

    The token advantages of rollouts `i` [n] int64 (one micro-batch):
    `token_advantages(t.clean[i], t.flagged[i], batch.tokens[i], spans_within(t.spans, i))`.

    Args:
        batch: the rollouts, `[rollouts]` tensors in any order; see `Batch` for each field. settings: method
        and constants of each group, `[groups]` or scalars; see `Settings`. token_penalty: its four constants;
        None gives flagged tokens the advantage of the others. spread_epsilon: the largest max - min of a
        group's rewards that counts as no spread (1e-9). length_position: `reward` (the recipe) or `post_gar`;
        see `sequence_advantages`. total: gives the sum of its argument over the data-parallel ranks; the
        identity on one. Called with the
            trained tokens per group and with the four masses. Group numbers are global, a group lies on one
            rank.
    """
    rollouts, groups = sequence_advantages(
        batch, settings, spread_epsilon=spread_epsilon, length_position=length_position
    )
    tokens = token_outcomes(
        batch, rollouts, groups, aggregation=aggregation, token_penalty=token_penalty, total=total
    )
    return BatchAdvantages(rollouts, groups, tokens)


def token_outcomes(
    batch: Batch,
    rollouts: RolloutOutcomes,
    groups: GroupOutcomes,
    *,
    aggregation: Aggregation,
    token_penalty: TokenPenalty | None,
    total: Total,
) -> TokenOutcomes:
    """Steps 8 to 10: weights, and the two token values of each rollout."""
    counted = rollouts.valid & groups.accepted[batch.group]
    advantage = rollouts.advantage
    totals = total(batch_totals(batch.tokens, counted, batch.group, len(groups.reason)))
    weight = loss_weights(
        batch.tokens, counted, batch.group, totals, aggregation=aggregation, dtype=advantage.dtype
    )
    spans = merged_spans(batch.spans, batch.tokens)
    if token_penalty is None:
        return TokenOutcomes(weight, advantage, advantage, spans, None, None)
    masses = total(token_masses(advantage, weight, batch.tokens, flagged_tokens(spans, len(batch.group))))
    scales = token_scales(masses, **token_penalty._asdict())
    clean, flagged = penalized(advantage, scales)
    return TokenOutcomes(weight, clean, flagged, spans, scales, mass_balance(masses, scales))
