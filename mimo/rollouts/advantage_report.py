"""From the JSON of `mimo advantages` to its answer: a batch of tensors, the order of operations, data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import chain

import torch
from torch import Tensor

from mimo.algo.batch import Batch, Settings, TokenPenalty, methods_tensor
from mimo.algo.length_penalty import LengthPenalty
from mimo.algo.order import ordered_advantages
from mimo.algo.outcomes import FALLBACKS, REASONS, BatchAdvantages, TokenOutcomes
from mimo.algo.spans import spans_of, spans_within, token_advantages
from mimo.rollouts.advantage_file import BatchInput, GroupInput, LengthPenaltyInput
from mimo.types import Json

SPREAD_EPSILON = 1e-9


def advantage_report(source: BatchInput | GroupInput) -> dict[str, Json]:
    """One group's answer, or `{"groups": [...], "token_penalty": {...} | null}`; every number is finite."""
    whole = source if isinstance(source, BatchInput) else BatchInput(groups=[source])
    batch = _batch(whole.groups)
    constants = whole.token_penalty
    result = ordered_advantages(
        batch,
        _settings(whole.groups),
        aggregation=whole.aggregation,
        token_penalty=None if constants is None else TokenPenalty(**constants.model_dump()),
        spread_epsilon=SPREAD_EPSILON,
        length_position="reward",
        total=lambda local: local,
    )
    groups = _groups(whole.groups, batch, result)
    if isinstance(source, GroupInput):
        return groups[0]
    return {"groups": list(groups), "token_penalty": _balance(result.tokens)}


def _batch(groups: Sequence[GroupInput]) -> Batch:
    sizes = [len(group.passed) for group in groups]
    passed = _bools(groups, lambda group: group.passed)
    tokens = torch.tensor(list(chain.from_iterable(map(_token_counts, groups))), dtype=torch.int64)
    return Batch(
        group=torch.repeat_interleave(torch.tensor(sizes, dtype=torch.int64)),
        valid=~_bools(groups, lambda group: group.invalid),
        passed=passed,
        leak=_bools(groups, lambda group: group.leak),
        reward=_floats(groups, lambda group: group.reward or [float(one) for one in group.passed]),
        solution=_floats(groups, lambda group: group.solution or [1.0] * len(group.passed)),
        behavior=_floats(groups, lambda group: group.behavior or [1.0] * len(group.passed)),
        quality=_floats(groups, lambda group: group.quality or [None] * len(group.passed)),
        length=_floats(groups, lambda group: group.length or [0.0] * len(group.passed)),
        tokens=tokens,
        spans=_spans(groups),
    )


def _bools(groups: Sequence[GroupInput], field: Callable[[GroupInput], list[bool] | None]) -> Tensor:
    rows = (field(group) or [False] * len(group.passed) for group in groups)
    return torch.tensor(list(chain.from_iterable(rows)), dtype=torch.bool)


def _floats(groups: Sequence[GroupInput], field: Callable[[GroupInput], Sequence[float | None]]) -> Tensor:
    values = chain.from_iterable(map(field, groups))
    return torch.tensor([math.nan if one is None else one for one in values], dtype=torch.float64)


def _token_counts(group: GroupInput) -> list[int]:
    """Trained tokens: as many as there are flags, else the length, else none."""
    if group.flags is not None:
        return [len(row) for row in group.flags]
    return list(group.length or [0] * len(group.passed))


def _spans(groups: Sequence[GroupInput]) -> Tensor:
    rows = chain.from_iterable(group.flags or [[]] * len(group.passed) for group in groups)
    found = [torch.empty((0, 3), dtype=torch.int64)]
    for rollout, row in enumerate(rows):
        spans = spans_of(torch.tensor(row, dtype=torch.bool))
        found.append(torch.cat([torch.full((len(spans), 1), rollout), spans], dim=1))
    return torch.cat(found)


def _settings(groups: Sequence[GroupInput]) -> Settings:
    def floats(values: list[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float64)

    off = LengthPenaltyInput(max=0.0)
    penalties = [(group.length_penalty or off).model_dump() for group in groups]
    columns = {name: floats([penalty[name] for penalty in penalties]) for name in LengthPenalty._fields}
    return Settings(
        method=methods_tensor([group.method for group in groups]),
        cap=floats([math.inf if group.cap is None else group.cap for group in groups]),
        keep=torch.tensor([group.below_mean == "keep" for group in groups], dtype=torch.bool),
        recentre=torch.tensor([group.recentre for group in groups], dtype=torch.bool),
        floor=floats([group.floor for group in groups]),
        length=LengthPenalty(**columns),
    )


def _groups(groups: Sequence[GroupInput], batch: Batch, result: BatchAdvantages) -> list[dict[str, Json]]:
    answers = []
    first = 0
    for number, group in enumerate(groups):
        members = torch.arange(first, first + len(group.passed))
        answers.append(_group(number, group, members, batch, result))
        first += len(group.passed)
    return answers


def _group(
    number: int, group: GroupInput, members: Tensor, batch: Batch, result: BatchAdvantages
) -> dict[str, Json]:
    rollouts, groups = result.rollouts, result.groups
    acted, reference = bool(groups.redistributed[number]), float(groups.length_reference[number])
    reward = zip(_plain(rollouts.reward[members]), rollouts.valid[members].tolist(), strict=True)
    answer: dict[str, Json] = {
        "reward": [value if valid else None for value, valid in reward],
        "advantage": _plain(rollouts.advantage[members]),
        "scale": float(groups.scale[number]) if acted else None,
        "scale_applied": float(groups.scale_applied[number]) if acted else None,
        "capped": bool(groups.capped[number]),
        "length_reference": reference if reference > 0 else None,
        "length_penalty": _plain(rollouts.length_penalty[members]),
        "passed_after_reset": (rollouts.passed & batch.valid)[members].tolist(),
        "dropped": not bool(groups.accepted[number]),
        "reason": REASONS[int(groups.reason[number])],
        "fallback": FALLBACKS[int(groups.fallback[number])],
    }
    if group.flags is not None:
        answer["token_advantage"] = _token_rows(members, batch, result.tokens)
    return answer


def _token_rows(members: Tensor, batch: Batch, tokens: TokenOutcomes) -> list[Json]:
    spans = spans_within(tokens.spans, members)
    counts = batch.tokens[members]
    values = token_advantages(tokens.clean[members], tokens.flagged[members], counts, spans)
    return [_plain(row) for row in torch.split(values, counts.tolist())]


def _plain(values: Tensor) -> list[Json]:
    """The numbers as a list, without negative zeros."""
    return [float(value) + 0.0 for value in values.tolist()]


def _balance(tokens: TokenOutcomes) -> dict[str, Json] | None:
    if tokens.scales is None or tokens.balance is None:
        return None
    masses = {name: float(value) + 0.0 for name, value in tokens.balance._asdict().items()}
    return {"alpha": float(tokens.scales.alpha), "beta": float(tokens.scales.beta), **masses}
