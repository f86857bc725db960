"""One optimiser step over a batch folder, and scoring: what every rank does between two commands."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch

from mimo.algo.loss import MaskBounds, masked_importance_loss
from mimo.backends.base import LossSpec
from mimo.errors import EngineFailed, StageFailed
from mimo.training.attention import Segment, packed
from mimo.training.batch import Batch, TrainSequence
from mimo.training.engine import Engine
from mimo.training.metrics import StepTotals
from mimo.training.packing import Row, plan_rows, whole_row

NOBODY = 2**31
_FILLER = whole_row([[0, 0]])
"""Run by a rank that has no row left, with weight 0: ZeRO 2 and 3 communicate in every pass."""


@dataclass(slots=True)
class Clock:
    """Seconds by part."""

    seconds: dict[str, float] = field(default_factory=dict)
    _last: float = field(default_factory=time.perf_counter)

    def lap(self, part: str) -> None:
        """Add the time since the last call to `part`."""
        now = time.perf_counter()
        self.seconds[part] = self.seconds.get(part, 0.0) + now - self._last
        self._last = now


class RowTensors(NamedTuple):
    """The per-token columns of a row's trained tokens, in its order: [trained] float32 on the device."""

    sampler_logprobs: torch.Tensor
    advantages: torch.Tensor
    weights: torch.Tensor


class BatchColumns:
    """The batch's per-token columns end to end, so that a row picks its own by index."""

    def __init__(self, sequences: Sequence[TrainSequence], device: torch.device) -> None:
        lengths = np.array([len(item.token_ids) for item in sequences])
        self._starts = np.cumsum(lengths) - lengths
        self._weights = np.array([item.loss_weight for item in sequences], dtype=np.float32)
        self._sampler = np.concatenate([item.sampler_logprobs for item in sequences])
        self._advantages = np.concatenate([item.advantages for item in sequences])
        self._device = device

    def of(self, row: Row) -> RowTensors:
        """The columns of the row's trained tokens."""
        at = self._starts[row.owner] + row.columns
        picked = (self._sampler[at], self._advantages[at], self._weights[row.owner])
        return RowTensors(*(torch.from_numpy(column).to(self._device) for column in picked))


class StepInputs(NamedTuple):
    """What every row of a step needs."""

    batch: Batch
    columns: BatchColumns
    loss: LossSpec
    totals: StepTotals
    clock: Clock


def train_step(
    engine: Engine, batch: Batch, loss: LossSpec, *, learning_rate: float, share_prefix: bool = True
) -> dict[str, float]:
    """The metrics of one optimiser step over `batch`, equal on every rank.

    When no token of the batch carries a signal (no advantage, every ratio masked) nothing is updated, and
    `step/trained` is 0: the stage decides what that means.

    Raises:
        StageFailed: the batch is of another kind than the loss, or has ids outside the vocabulary.
        EngineFailed: a loss or gradient is not finite; the first rollout is named, nothing was updated.
    """
    _check_batch(engine, batch, loss)
    clock = Clock()
    rows = plan_rows(
        batch.sequences,
        budget=engine.config.micro_batch_tokens,
        ranks=engine.world_size,
        share_prefix=share_prefix,
    )[engine.rank]
    columns = BatchColumns(batch.sequences, engine.device)
    step = StepInputs(batch, columns, loss, StepTotals(kind=loss.kind), clock)
    clock.lap("pack")
    for row in rows:
        _train_row(engine, step, row)
    totals = step.totals.reduced(engine)
    if totals.signal_tokens:
        norm = engine.step(learning_rate)
    else:
        norm = 0.0
        engine.drop_gradients()
    engine.give_back_memory()
    clock.lap("optimizer")
    return totals.metrics(seconds=clock.seconds, grad_norm=norm, learning_rate=learning_rate)


def score(
    engine: Engine, sequences: Sequence[Sequence[int]], *, temperature: float
) -> list[tuple[float, ...]]:
    """Per sequence the logprob of each token but the first; every rank computes all of them."""
    order = sorted(range(len(sequences)), key=lambda i: len(sequences[i]))
    found: dict[int, tuple[float, ...]] = {}
    with torch.no_grad():
        while order:
            chosen = [order.pop()]
            room = engine.config.micro_batch_tokens - len(sequences[chosen[0]])
            while order and len(sequences[order[-1]]) <= room:
                room -= len(sequences[order[-1]])
                chosen.append(order.pop())
            row = whole_row([sequences[i] for i in chosen])
            with packed([Segment(*span) for span in row.segments]):
                values = engine.logprobs(row, temperature)[0].cpu().numpy()
            engine.on_progress()
            for place, index in enumerate(chosen):
                found[index] = tuple(float(value) for value in values[row.owner == place])
    return [found[i] for i in range(len(sequences))]


def _check_batch(engine: Engine, batch: Batch, loss: LossSpec) -> None:
    if batch.kind != loss.kind:
        raise StageFailed(f"the batch of step {batch.step} is for {batch.kind}, the loss is {loss.kind}")
    vocabulary = engine.model.config.get_text_config().vocab_size
    for item in batch.sequences:
        highest = int(item.token_ids.max())
        if highest >= vocabulary:
            raise StageFailed(
                f"rollout {item.rollout_id}: token id {highest} with a vocabulary of {vocabulary}",
                hint="the batch was made with another tokenizer",
            )


def _train_row(engine: Engine, step: StepInputs, row: Row | None) -> None:
    current = row or _FILLER
    sequences, clock = step.batch.sequences, step.clock
    with packed([Segment(*span) for span in current.segments]):
        logprobs, entropies = engine.logprobs(current, step.loss.temperature)
        clock.lap("forward")
        if row is None:
            value, terms = logprobs.sum() * 0.0, None
        else:
            columns = step.columns.of(row)
            value, terms = _loss(logprobs, columns, step.loss, totals=step.totals)
            step.totals.add(row, logprobs.detach(), entropies, columns.sampler_logprobs)
            step.totals.loss += float(value.detach())
        _agree_finite(engine, sequences, row, terms)
        clock.lap("loss")
        finite = engine.backward(value)
        clock.lap("backward")
    _agree_gradient(engine, sequences, row, finite)
    engine.on_progress()


def _loss(
    logprobs: torch.Tensor, columns: RowTensors, loss: LossSpec, *, totals: StepTotals
) -> tuple[torch.Tensor, torch.Tensor]:
    """(the row's part of the loss, [trained] terms whose finiteness is that of their tokens)."""
    if loss.kind == "sft":
        terms = -columns.weights * logprobs
        totals.signal_tokens += int((columns.weights != 0).sum())
        return terms.sum(), terms.detach()
    bounds = MaskBounds(loss.positive_low, loss.positive_high, loss.negative_low, loss.negative_high)
    counted = columns.weights != 0
    value, counts = masked_importance_loss(
        logprobs, columns.sampler_logprobs, columns.advantages, columns.weights, counted, bounds=bounds
    )
    totals.count_masks(counts)
    with torch.no_grad():
        delta = logprobs - columns.sampler_logprobs
        ratio = delta.exp().clamp(max=max(bounds.positive_high, bounds.negative_high))
        terms = ratio * columns.advantages * columns.weights * logprobs
    return value, terms


def _agree_finite(
    engine: Engine, sequences: Sequence[TrainSequence], row: Row | None, terms: torch.Tensor | None
) -> None:
    """Every rank learns of the first rollout, in batch order, whose loss is not finite."""
    first = NOBODY
    if row is not None and terms is not None:
        bad = ~torch.isfinite(terms).cpu().numpy()
        if bad.any():
            first = int(np.min(row.owner[bad]))
    first = -int(engine.max_over_ranks(torch.tensor([-first]))[0])
    if first < NOBODY:
        raise EngineFailed(
            f"the loss of rollout {sequences[first].rollout_id} is not finite; nothing was updated",
            hint="look at its logprobs, advantages and loss weight in the batch folder",
        )


def _agree_gradient(
    engine: Engine, sequences: Sequence[TrainSequence], row: Row | None, finite: bool
) -> None:
    first = NOBODY if finite or row is None else int(np.min(row.owner))
    first = -int(engine.max_over_ranks(torch.tensor([-first]))[0])
    if first < NOBODY:
        raise EngineFailed(
            f"the gradient of the row that begins with rollout {sequences[first].rollout_id} is not finite; "
            "nothing was updated"
        )
