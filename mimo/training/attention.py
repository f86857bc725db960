"""Attention over packed rows: each segment sees the prefix it hangs on and itself, and nothing else.

A row holds unrelated sequences, or one shared prefix followed by the suffixes of a group. Every segment is
one call of scaled dot-product attention over exactly the keys it may see, so that memory and work grow with
sum(suffix * (prefix + suffix)) and not with the square of the row, as under a dense mask. Registered with
transformers under `NAME`; every model that takes its attention from transformers' table can use it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from mimo.errors import EngineFailed

NAME = "mimo_packed"
FOLDED_MASK = 2**21
"""Most elements of a mask that is kept for all layers of a row; a longer segment's is made again in each."""
_ROWS: list[PackedRow] = []
"""The row under way, last; no context variable, as CUDA runs the backward pass in a thread of its own."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Tokens [start, end) of a row; they also see [prefix_start, prefix_end), which is empty for most."""

    start: int
    end: int
    prefix_start: int = 0
    prefix_end: int = 0


class PackedRow:
    """The segments of a row, and the masks of those that need one: the same in every layer."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self.segments = segments
        self._places = {(segment.start, segment.end): place for place, segment in enumerate(segments)}
        self._masks: dict[tuple[int, int | None, int], torch.Tensor] = {}

    def place_of(self, span: tuple[int, int]) -> int | None:
        """Which segment is exactly `span`, if any."""
        return self._places.get(span)

    def mask(self, place: int, window: int | None, copies: int, like: torch.Tensor) -> torch.Tensor:
        """[copies * queries, keys] added to the scores: 0 where a query sees a key, else -inf. Kept."""
        found = self._masks.get((place, window, copies))
        if found is None or (found.dtype, found.device) != (like.dtype, like.device):
            found = _mask(self.segments[place], window, like).repeat(copies, 1)
            self._masks[place, window, copies] = found
        return found


@contextmanager
def packed(segments: Sequence[Segment]) -> Iterator[None]:
    """Rows inside the block are made of `segments`; keep it open through the backward pass."""
    _ROWS.append(PackedRow(segments))
    try:
        yield
    finally:
        _ROWS.pop()


def register() -> None:
    """Make the implementation known to transformers as `NAME`; it needs no mask from there."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, packed_attention)


def packed_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    s_aux: torch.Tensor | None = None,
    softcap: float | None = None,
    **_unused: Any,
) -> tuple[torch.Tensor, None]:
    """Attention output [1, row, heads, dim] of queries [1, heads, row, dim]; keys may have fewer heads.

    Raises:
        EngineFailed: the model's attention has sinks, soft caps or dropout, which this does not compute.
    """
    if s_aux is not None or softcap is not None or dropout or attention_mask is not None:
        what = "attention with sinks, soft cap, dropout or its own mask cannot be packed"
        raise EngineFailed(f"{type(module).__name__}: {what}")
    row = _ROWS[-1]
    queries, keys, values = (_Pieces(tensor, row) for tensor in (query, key, value))
    parts = [
        _segment_attention(queries, keys, values, place, scaling=scaling, window=sliding_window)
        for place in range(len(row.segments))
    ]
    return torch.cat(parts, dim=2).transpose(1, 2), None


class _Pieces:
    """One tensor [1, heads, row, dim] cut into its segments by a single split.

    The gradient of a slice is as long as the row, that of a split is one concatenation: with slices the
    backward pass grows with the square of the number of segments.
    """

    def __init__(self, tensor: torch.Tensor, row: PackedRow) -> None:
        self._tensor = tensor
        self.row = row
        self._own = torch.split(tensor, [segment.end - segment.start for segment in row.segments], dim=2)

    def own(self, place: int) -> torch.Tensor:
        """What belongs to the segment itself."""
        return self._own[place]

    def seen(self, place: int) -> torch.Tensor:
        """The prefix it hangs on, then itself."""
        segment = self.row.segments[place]
        if segment.prefix_end == segment.prefix_start:
            return self._own[place]
        span = (segment.prefix_start, segment.prefix_end)
        known = self.row.place_of(span)
        prefix = self._tensor[:, :, slice(*span)] if known is None else self._own[known]
        return torch.cat([prefix, self._own[place]], dim=2)


def _segment_attention(
    query: _Pieces,
    key: _Pieces,
    value: _Pieces,
    place: int,
    *,
    scaling: float | None,
    window: int | None,
) -> torch.Tensor:
    segment = query.row.segments[place]
    queries, keys, values = query.own(place), key.seen(place), value.seen(place)
    copies = queries.shape[1] // keys.shape[1]
    if window is not None and keys.shape[2] <= window:
        window = None
    plain = segment.prefix_start == segment.prefix_end and window is None
    if plain or copies * queries.shape[2] * keys.shape[2] > FOLDED_MASK:
        if copies > 1:
            keys, values = keys.repeat_interleave(copies, dim=1), values.repeat_interleave(copies, dim=1)
        mask = None if plain else _mask(segment, window, like=queries)
        return scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask, is_causal=plain, scale=scaling
        )
    # queries that share a head's keys become one longer query: the keys, prefix and all, are not copied
    folded = queries.reshape(1, keys.shape[1], -1, queries.shape[3])
    mask = query.row.mask(place, window, copies, like=queries)
    found = scaled_dot_product_attention(folded, keys, values, attn_mask=mask, scale=scaling)
    return found.reshape(*queries.shape[:3], found.shape[3])


def _mask(segment: Segment, window: int | None, like: torch.Tensor) -> torch.Tensor:
    prefix_len = segment.prefix_end - segment.prefix_start
    length = segment.end - segment.start
    at = torch.arange(length, device=like.device)[:, None] + prefix_len
    seen = torch.arange(prefix_len + length, device=like.device)[None, :]
    visible = seen <= at
    if window is not None:
        visible &= seen > at - window
    return torch.zeros(visible.shape, dtype=like.dtype, device=like.device).masked_fill(
        ~visible, float("-inf")
    )
