"""Flags as spans, and token advantages made from them for the rollouts of one micro-batch.

A batch of 250M tokens is never held: a span is [rollout, start, end) in that rollout's trained tokens, and a
rollout has two token values, one for unflagged and one for flagged tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor


def merged_spans(spans: Tensor, tokens: Tensor) -> Tensor:
    """[merged, 3] int64 the same flags, sorted and disjoint, cut to the rollout's tokens, none empty.

    Args:
        spans: [spans, 3] int64 (rollout, start, end), any order, overlaps allowed.
        tokens: [rollouts] int64 trained tokens.
    """
    rollout, limit = spans[:, 0], tokens[spans[:, 0]]
    base = (tokens.cumsum(0) - tokens)[rollout]
    start, end = (base + torch.minimum(spans[:, at].clamp(min=0), limit) for at in (1, 2))
    order = torch.argsort(start, stable=True)
    rollout, base, start, end = rollout[order], base[order], start[order], end[order]
    reach = end.cummax(0).values if len(end) else end
    start = torch.maximum(start, torch.cat([reach.new_zeros(1), reach[:-1]])[: len(start)])
    used = end > start
    # Column by column in memory, so that `spans_within` searches the first one without a copy.
    return torch.stack([part[used] for part in (rollout, start - base, end - base)]).T


def flagged_tokens(spans: Tensor, num_rollouts: int) -> Tensor:
    """[rollouts] int64 number of flagged tokens, from disjoint spans (`merged_spans`)."""
    return spans.new_zeros(num_rollouts).index_add(0, spans[:, 0], spans[:, 2] - spans[:, 1])


def spans_of(flags: Tensor) -> Tensor:
    """[spans, 2] int64 the [start, end) runs of True in `flags` [tokens] bool."""
    edges = torch.nn.functional.pad(flags.to(torch.int8), (1, 1)).diff()
    return torch.stack([torch.nonzero(edges == sign).squeeze(1) for sign in (1, -1)], dim=1)


def token_advantages(clean: Tensor, flagged: Tensor, tokens: Tensor, spans: Tensor) -> Tensor:
    """[sum of tokens] the advantage of every trained token of these rollouts, one after another.

    Args:
        clean: [rollouts] value of unflagged tokens; `flagged` [rollouts] of flagged ones (`penalized`).
        tokens: [rollouts] int64 trained tokens.
        spans: [spans, 3] int64 disjoint, rollout numbers counting within these rollouts.
    """
    rollout, offsets = spans[:, 0], tokens.cumsum(0) - tokens
    starts, ends = offsets[rollout] + spans[:, 1], offsets[rollout] + spans[:, 2]
    # At one position an end comes before a rollout's first token, and that before a span's start.
    position, order = torch.cat([ends, offsets, starts]).sort(stable=True)
    values = torch.cat([clean[rollout], clean, flagged[rollout]])[order]
    runs = torch.cat([position, tokens.sum().reshape(1)]).diff()
    result = clean.new_empty(int(tokens.sum()))
    # Filling run by run costs one pass over memory; repeat_interleave would gather token by token.
    for part, value in zip(torch.split(result, runs.tolist()), values.tolist(), strict=True):
        part.fill_(value)
    return result


def spans_within(spans: Tensor, chosen: Tensor) -> Tensor:
    """[n, 3] the spans of the rollouts `chosen` [m] int64, renumbered 0..m-1 in that order.

    Costs a search per chosen rollout, whatever the size of the batch. `spans` are sorted (`merged_spans`).
    """
    rollout = spans[:, 0].contiguous()
    first = torch.searchsorted(rollout, chosen)
    count = torch.searchsorted(rollout, chosen, right=True) - first
    reach = count.cumsum(0)
    number = torch.arange(int(count.sum()), device=spans.device)
    place = torch.searchsorted(reach, number, right=True)
    within = number - (reach - count)[place]
    found = spans[first[place] + within]
    return torch.cat([place[:, None], found[:, 1:]], dim=1)
