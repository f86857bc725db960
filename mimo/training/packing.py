"""Micro-batches under a token budget: packed rows in which a group's shared prefix appears once.

Deterministic: equal batches, budgets and numbers of ranks give equal rows. No row is padded; a rank that
would be left without a row gets None, which the loop turns into a row without weight (ZeRO 2 and 3 need the
same number of passes on every rank).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mimo.training.batch import TrainSequence

Unit = tuple[int, ...]
"""Indices of sequences that share one prefix in a row (or of one sequence alone)."""
Span = tuple[int, int, int, int]
"""start, end, prefix_start, prefix_end of one segment of a row."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Row:
    """One packed row. `tokens`: length of the row; `trained`: number of tokens that carry a loss."""

    token_ids: npt.NDArray[np.int64]
    """[tokens]"""
    position_ids: npt.NDArray[np.int64]
    """[tokens]; suffixes go on where their prefix ends."""
    segments: tuple[Span, ...]
    """What sees what; together they cover the row in order."""
    select: npt.NDArray[np.int64]
    """[trained] index into the row of the token that predicts."""
    targets: npt.NDArray[np.int64]
    """[trained] the token predicted."""
    owner: npt.NDArray[np.int64]
    """[trained] which sequence of the batch it belongs to."""
    columns: npt.NDArray[np.int64]
    """[trained] its position in that sequence."""


def plan_rows(
    sequences: Sequence[TrainSequence], *, budget: int, ranks: int, share_prefix: bool = True
) -> list[list[Row | None]]:
    """For each rank its rows; every rank gets the same number, filled up with None.

    Args:
        budget: most tokens in one row; a longer sequence gets a row of its own.
        share_prefix: False computes every prefix again for each rollout (for comparison).
    """
    budget = _fair_budget(sequences, budget, ranks)
    units = _units(sequences, budget, share_prefix)
    bins = _best_fit([_unit_tokens(sequences, unit) for unit in units], budget)
    rows = [_row(sequences, [units[i] for i in chosen], share_prefix) for chosen in bins]
    return _deal(rows, ranks)


def whole_row(token_ids: Sequence[Sequence[int]]) -> Row:
    """A row of plain sequences in which every token but each first is predicted (for scoring)."""
    items = [
        TrainSequence(
            rollout_id="",
            token_ids=np.asarray(ids, dtype=np.int32),
            loss_mask=np.arange(len(ids)) > 0,
            sampler_logprobs=np.zeros(len(ids), dtype=np.float32),
            advantages=np.zeros(len(ids), dtype=np.float32),
            loss_weight=0.0,
        )
        for ids in token_ids
    ]
    return _row(items, [(i,) for i in range(len(items))], share_prefix=False)


def _fair_budget(sequences: Sequence[TrainSequence], budget: int, ranks: int) -> int:
    """No more than a rank's share, so that few long rows do not leave ranks idle."""
    if ranks == 1:
        return budget
    total = sum(len(item.token_ids) for item in sequences)
    longest = max(len(item.token_ids) for item in sequences)
    return min(budget, max(-(-total // ranks), longest))


def _units(sequences: Sequence[TrainSequence], budget: int, share_prefix: bool) -> list[Unit]:
    groups: dict[str, list[int]] = {}
    units: list[Unit] = []
    for index, item in enumerate(sequences):
        if share_prefix and item.prefix_group is not None and item.prefix_len:
            groups.setdefault(item.prefix_group, []).append(index)
        else:
            units.append((index,))
    for members in groups.values():
        prefix = sequences[members[0]].prefix_len
        suffixes = [len(sequences[i].token_ids) - prefix for i in members]
        for chosen in _best_fit(suffixes, max(budget - prefix, 1)):
            units.append(tuple(members[i] for i in chosen))
    return units


def _unit_tokens(sequences: Sequence[TrainSequence], unit: Unit) -> int:
    prefix = sequences[unit[0]].prefix_len if len(unit) > 1 else 0
    return prefix + sum(len(sequences[i].token_ids) - prefix for i in unit)


def _best_fit(sizes: Sequence[int], budget: int) -> list[list[int]]:
    """Indices by bin: decreasing sizes, each into the fullest bin with room; oversized ones stand alone."""
    bins: list[list[int]] = []
    rooms: list[tuple[int, int]] = []
    for index in sorted(range(len(sizes)), key=lambda i: (-sizes[i], i)):
        at = bisect_left(rooms, (sizes[index], -1))
        if at < len(rooms):
            room, place = rooms.pop(at)
        else:
            room, place = budget, len(bins)
            bins.append([])
        bins[place].append(index)
        insort(rooms, (room - sizes[index], place))
    return [sorted(chosen) for chosen in bins]


def _deal(rows: list[Row], ranks: int) -> list[list[Row | None]]:
    dealt: list[list[Row | None]] = [[] for _ in range(ranks)]
    load = [0] * ranks
    for row in sorted(rows, key=lambda item: -len(item.token_ids)):
        rank = load.index(min(load))
        dealt[rank].append(row)
        load[rank] += len(row.token_ids)
    most = max(len(part) for part in dealt)
    return [part + [None] * (most - len(part)) for part in dealt]


def _row(sequences: Sequence[TrainSequence], units: Sequence[Unit], share_prefix: bool) -> Row:
    builder = _RowBuilder()
    for unit in units:
        prefix_len = sequences[unit[0]].prefix_len if share_prefix and len(unit) > 1 else 0
        prefix = builder.add(sequences[unit[0]].token_ids[:prefix_len], 0, (0, 0))
        for index in unit:
            start, _ = builder.add(sequences[index].token_ids[prefix_len:], prefix_len, prefix)
            builder.train(sequences[index], index, start=start, prefix_len=prefix_len, prefix=prefix)
    return builder.row()


class _RowBuilder:
    """Collects the pieces of one row."""

    def __init__(self) -> None:
        self.tokens = 0
        self.ids: list[npt.NDArray[np.int32]] = []
        self.positions: list[npt.NDArray[np.int64]] = []
        self.segments: list[Span] = []
        self.select: list[npt.NDArray[np.int64]] = []
        self.targets: list[npt.NDArray[np.int32]] = []
        self.owner: list[npt.NDArray[np.int64]] = []
        self.columns: list[npt.NDArray[np.int64]] = []

    def add(
        self, ids: npt.NDArray[np.int32], first_position: int, prefix: tuple[int, int]
    ) -> tuple[int, int]:
        """Append a segment (nothing when empty); its [start, end)."""
        start, end = self.tokens, self.tokens + len(ids)
        if end > start:
            self.ids.append(ids)
            self.positions.append(np.arange(first_position, first_position + len(ids), dtype=np.int64))
            self.segments.append((start, end, *prefix))
            self.tokens = end
        return start, end

    def train(
        self, item: TrainSequence, index: int, *, start: int, prefix_len: int, prefix: tuple[int, int]
    ) -> None:
        """Note the trained tokens of a sequence whose tokens from `prefix_len` on begin at `start`."""
        columns = np.flatnonzero(item.loss_mask)
        before = columns - 1
        self.select.append(np.where(before < prefix_len, before + prefix[0], before - prefix_len + start))
        self.targets.append(item.token_ids[columns])
        self.owner.append(np.full(len(columns), index, dtype=np.int64))
        self.columns.append(columns)

    def row(self) -> Row:
        """The finished row."""
        return Row(
            token_ids=np.concatenate(self.ids).astype(np.int64),
            position_ids=np.concatenate(self.positions),
            segments=tuple(self.segments),
            select=np.concatenate(self.select),
            targets=np.concatenate(self.targets).astype(np.int64),
            owner=np.concatenate(self.owner),
            columns=np.concatenate(self.columns),
        )
