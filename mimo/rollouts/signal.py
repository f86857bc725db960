"""From finished groups to the learning signal: METHOD 7's order, through one function of `mimo.algo`.

Records in, records and token advantages out. A rollout without a verdict is invalid and leaves its group's
statistics; a confirmed hack is reset before them; ungraded is NaN for the mathematics, never a number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mimo.algo.batch import Batch, Settings, TokenPenalty, methods_tensor
from mimo.algo.length_penalty import LengthPenalty
from mimo.algo.loss_weights import Aggregation
from mimo.algo.order import ordered_advantages
from mimo.algo.outcomes import FALLBACKS, REASONS, BatchAdvantages
from mimo.algo.spans import spans_within, token_advantages
from mimo.rollouts.groups import GroupPlan
from mimo.rollouts.loop import Finished
from mimo.rollouts.signal_metrics import signal_metrics
from mimo.rollouts.token_log import Payload
from mimo.types import Group, HackVerdict, Json, Routing


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledGroup:
    """A group as it came back; `method` decides how its rewards and advantages are made."""

    plan: GroupPlan
    finished: tuple[Finished, ...]
    method: Routing


@dataclass(frozen=True, kw_only=True, slots=True)
class SignalRules:
    """The recipe's numbers for one batch (METHOD 3 to 7)."""

    aggregation: Aggregation
    spread_epsilon: float
    grs_floor: float
    gar_cap: float
    gar_keep: bool
    gar_recentre: bool
    length_penalty: LengthPenalty
    token_penalty: TokenPenalty | None


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainedRollout:
    """A context that goes into the batch: advantage of every token [n] (0 off the mask), its loss weight."""

    finished: Finished
    advantages: NDArray[np.float32]
    loss_weight: float
    context: int = 0
    """Which of the rollout's contexts: a rollout with several is in the batch once for each."""

    @property
    def payload(self) -> Payload:
        """The tokens of that context."""
        return self.finished.payloads[self.context]


@dataclass(frozen=True, kw_only=True, slots=True)
class Signal:
    """What a batch of groups teaches; `groups` and `finished` are in the order they came."""

    groups: tuple[Group, ...]
    finished: tuple[tuple[Finished, ...], ...]
    trained: tuple[TrainedRollout, ...]
    metrics: dict[str, float]


def learning_signal(groups: Sequence[SampledGroup], rules: SignalRules) -> Signal:
    """Rewards, advantages, acceptance and token advantages of `groups`, treated as one batch."""
    flat = [(number, item) for number, group in enumerate(groups) for item in group.finished]
    batch, settings = _batch(flat), _settings(groups, rules)
    result = ordered_advantages(
        batch,
        settings,
        aggregation=rules.aggregation,
        token_penalty=rules.token_penalty,
        spread_epsilon=rules.spread_epsilon,
        length_position="reward",
        total=lambda value: value,
    )
    finished = [_judged(item, result, place) for place, (_, item) in enumerate(flat)]
    return Signal(
        groups=tuple(_record(group, number, result) for number, group in enumerate(groups)),
        finished=_regrouped(finished, [len(group.finished) for group in groups]),
        trained=tuple(_trained(finished, batch, result)),
        metrics=signal_metrics(batch, result, settings.method),
    )


def _settings(groups: Sequence[SampledGroup], rules: SignalRules) -> Settings:
    return Settings(
        method=methods_tensor([group.method for group in groups]),
        cap=rules.gar_cap,
        keep=rules.gar_keep,
        recentre=rules.gar_recentre,
        floor=rules.grs_floor,
        length=rules.length_penalty,
    )


def _batch(flat: Sequence[tuple[int, Finished]]) -> Batch:
    def column(values: list[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float64)

    rows = [item.rollout for _, item in flat]
    grades = [row.grades for row in rows]
    return Batch(
        group=torch.tensor([number for number, _ in flat], dtype=torch.int64),
        valid=torch.tensor([item.rollout.verdict is not None and _tokens(item) > 0 for _, item in flat]),
        passed=torch.tensor([row.verdict is not None and row.reward == 1.0 for row in rows]),
        leak=torch.tensor(
            [row.hack is not None and row.hack.verdict is HackVerdict.CONFIRMED for row in rows]
        ),
        reward=column([row.reward or 0.0 for row in rows]),
        solution=column([math.nan if g is None or g.solution is None else g.solution for g in grades]),
        behavior=column([math.nan if g is None or g.behavior is None else g.behavior for g in grades]),
        quality=column([math.nan if g is None or g.quality is None else g.quality for g in grades]),
        length=column([float(row.generated_tokens) for row in rows]),
        tokens=torch.tensor([_tokens(item) for _, item in flat], dtype=torch.int64),
        spans=_spans(flat),
    )


def _tokens(item: Finished) -> int:
    return sum(int(payload.loss_mask.sum()) for payload in item.payloads)


def _spans(flat: Sequence[tuple[int, Finished]]) -> Tensor:
    """[spans, 3] the flags, counted in trained tokens."""
    rows: list[tuple[int, int, int]] = []
    for place, (_, item) in enumerate(flat):
        before = 0
        for context, payload in zip(item.rollout.contexts, item.payloads, strict=False):
            trained = before + np.concatenate([[0], np.cumsum(payload.loss_mask)])
            for turn in context.turns:
                rows += [(place, int(trained[f.span[0]]), int(trained[f.span[1]])) for f in turn.flags]
            before = int(trained[-1])
    return torch.tensor(rows, dtype=torch.int64).reshape(-1, 3)


def _judged(item: Finished, result: BatchAdvantages, place: int) -> Finished:
    """The rollout with its final reward and advantage; both stay None where it was not counted."""
    if not bool(result.rollouts.valid[place]):
        return item
    reward = float(result.rollouts.reward[place])
    advantage = float(result.rollouts.advantage[place])
    return replace(item, rollout=replace(item.rollout, reward=reward, advantage=advantage))


def _record(group: SampledGroup, number: int, result: BatchAdvantages) -> Group:
    outcome = result.groups
    accepted = bool(outcome.accepted[number])
    statistics: dict[str, Json] = {
        "valid": sum(item.rollout.verdict is not None for item in group.finished),
        "passed": sum(
            item.rollout.verdict is not None and item.rollout.verdict.passed for item in group.finished
        ),
        "scale": float(outcome.scale[number]),
        "scale_applied": float(outcome.scale_applied[number]),
        "capped": bool(outcome.capped[number]),
        "deficit": float(outcome.deficit[number]),
        "fallback": FALLBACKS[int(outcome.fallback[number])],
        "length_reference": float(outcome.length_reference[number]),
    }
    return Group(
        group_id=group.plan.group_id,
        task_id=group.plan.task.task_id,
        step=group.plan.step,
        rollout_ids=tuple(item.rollout.rollout_id for item in group.finished),
        method=group.method,
        accepted=accepted,
        reason=REASONS[int(outcome.reason[number])],
        statistics=statistics,
    )


def _regrouped(flat: Sequence[Finished], sizes: Sequence[int]) -> tuple[tuple[Finished, ...], ...]:
    rows, start = [], 0
    for size in sizes:
        rows.append(tuple(flat[start : start + size]))
        start += size
    return tuple(rows)


def _trained(finished: Sequence[Finished], batch: Batch, result: BatchAdvantages) -> list[TrainedRollout]:
    """The rollouts whose tokens carry a non-zero weight and advantage (the others add exactly nothing)."""
    tokens = result.tokens
    rows = []
    speaks = (tokens.weight > 0) & ((tokens.clean != 0) | (tokens.flagged != 0))
    for place in torch.nonzero(speaks).flatten().tolist():
        chosen = torch.tensor([place])
        values = token_advantages(
            tokens.clean[chosen],
            tokens.flagged[chosen],
            batch.tokens[chosen],
            spans_within(tokens.spans, chosen),
        )
        columns = _by_context(finished[place].payloads, values.to(torch.float32).numpy())
        weight = float(tokens.weight[place])
        rows += [
            TrainedRollout(
                finished=finished[place], advantages=advantages, loss_weight=weight, context=context
            )
            for context, advantages in columns
        ]
    return rows


def _by_context(
    payloads: Sequence[Payload], values: NDArray[np.float32]
) -> list[tuple[int, NDArray[np.float32]]]:
    """The number and the advantages [n] of every context that trains; `values` are those of all of them."""
    columns, start = [], 0
    for context, payload in enumerate(payloads):
        end = start + int(payload.loss_mask.sum())
        if end > start:
            advantages = np.zeros(len(payload), dtype=np.float32)
            advantages[payload.loss_mask] = values[start:end]
            columns.append((context, advantages))
        start = end
    return columns
