"""Supervised batches from demonstrations: seeded epochs, token-mean loss weights, a linear warm-up."""

from __future__ import annotations

import random
from collections.abc import Sequence

from mimo.rollouts.loop import derived_seed
from mimo.stages.demonstrations import Demonstration
from mimo.training.batch import TrainSequence, sft_sequence


def sft_batch(
    demonstrations: Sequence[Demonstration], step: int, *, size: int, seed: int
) -> list[TrainSequence]:
    """The sequences of optimiser step `step` (0-based): the next `size` of the seeded epochs.

    Every trained token of the batch weighs the same: 1 / (trained tokens of the batch).
    """
    chosen = [_at(demonstrations, step * size + place, seed) for place in range(size)]
    tokens = sum(int(item.payload.loss_mask.sum()) for item in chosen)
    return [
        sft_sequence(
            f"{item.rollout.rollout_id}#{place}",
            item.payload.token_ids.tolist(),
            item.payload.loss_mask.tolist(),
            loss_weight=1.0 / tokens,
        )
        for place, item in enumerate(chosen)
    ]


def warmed_up(learning_rate: float, step: int, warmup_steps: int) -> float:
    """The rate of optimiser step `step` (0-based): linear from 0 over `warmup_steps`, then constant."""
    return learning_rate * min(1.0, (step + 1) / (warmup_steps + 1))


def _at(demonstrations: Sequence[Demonstration], position: int, seed: int) -> Demonstration:
    epoch, place = divmod(position, len(demonstrations))
    order = list(range(len(demonstrations)))
    random.Random(derived_seed("sft", seed, epoch)).shuffle(order)
    return demonstrations[order[place]]
