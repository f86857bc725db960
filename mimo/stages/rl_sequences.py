"""Trained contexts as the sequences of a batch, and the loss of a reinforcement step over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mimo.backends.base import LossSpec
from mimo.recipe.models import Recipe
from mimo.rollouts.signal import TrainedRollout

if TYPE_CHECKING:
    from mimo.training.batch import TrainSequence


def rl_sequences(trained: Sequence[TrainedRollout]) -> list[TrainSequence]:
    """The batch's sequences; rollouts of a group that start alike share their prompt's computation."""
    from mimo.training.batch import TrainSequence

    rows = []
    for item in trained:
        payload, record = item.payload, item.finished.rollout
        prefix = int(payload.loss_mask.argmax())
        later = f"/{item.context}" if item.context else ""  # begins with its own history, shared with none
        rows.append(
            TrainSequence(
                rollout_id=record.rollout_id + later,
                token_ids=payload.token_ids,
                loss_mask=payload.loss_mask,
                sampler_logprobs=payload.sampler_logprobs,
                advantages=item.advantages,
                loss_weight=item.loss_weight,
                prefix_group=f"{record.rollout_id}{later}" if later else record.group_id,
                prefix_len=prefix,
            )
        )
    return rows


def rl_loss(recipe: Recipe, *, temperature: float) -> LossSpec:
    """Masked importance sampling at the rollouts' `temperature`, in the bounds of `rl_mixed.mask`."""
    mask = recipe.rl_mixed.mask
    return LossSpec(
        kind="rl",
        temperature=temperature,
        positive_low=mask.positive_low,
        positive_high=mask.positive_high,
        negative_low=mask.negative_low,
        negative_high=mask.negative_high,
    )
