"""Flags as spans against flags written out token by token."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from mimo.algo.spans import flagged_tokens, merged_spans, spans_of, spans_within, token_advantages

SPANS = st.tuples(st.integers(0, 4), st.integers(-2, 14), st.integers(-2, 14))


def written_out(tokens: list[int], spans: list[tuple[int, int, int]]) -> list[list[bool]]:
    rows = [[False] * count for count in tokens]
    for rollout, start, end in spans:
        for at in range(max(start, 0), min(end, tokens[rollout])):
            rows[rollout][at] = True
    return rows


@given(st.lists(st.integers(0, 12), min_size=5, max_size=5), st.lists(SPANS, max_size=12))
def test_spans_say_the_same_as_flags(tokens: list[int], spans: list[tuple[int, int, int]]) -> None:
    """Overlapping, empty, reversed, out-of-range spans; empty rollouts."""
    counts = torch.tensor(tokens)
    rows = written_out(tokens, spans)
    merged = merged_spans(torch.tensor(spans, dtype=torch.int64).reshape(-1, 3), counts)
    assert flagged_tokens(merged, 5).tolist() == [sum(row) for row in rows]
    clean, hit = torch.arange(1.0, 6.0), -torch.arange(1.0, 6.0)
    values = token_advantages(clean, hit, counts, merged)
    expected = [float(-(at + 1) if flag else at + 1) for at, row in enumerate(rows) for flag in row]
    assert values.tolist() == expected
    chosen = torch.tensor([3, 0, 4])
    part = token_advantages(clean[chosen], hit[chosen], counts[chosen], spans_within(merged, chosen))
    assert part.tolist() == [float(-(at + 1) if f else at + 1) for at in (3, 0, 4) for f in rows[at]]


@given(st.lists(st.booleans(), max_size=30))
def test_runs_of_flags(flags: list[bool]) -> None:
    spans = spans_of(torch.tensor(flags, dtype=torch.bool))
    again = [False] * len(flags)
    for start, end in spans.tolist():
        assert start < end
        again[start:end] = [True] * (end - start)
    assert again == flags
    assert all(one[1] < two[0] for one, two in zip(spans.tolist(), spans.tolist()[1:], strict=False))


def test_nothing_flagged_and_nothing_there() -> None:
    none = torch.empty((0, 3), dtype=torch.int64)
    assert merged_spans(none, torch.tensor([3, 0])).shape == (0, 3)
    empty = torch.empty(0, dtype=torch.int64)
    assert token_advantages(torch.empty(0), torch.empty(0), empty, none).shape == (0,)
    assert merged_spans(none, empty).shape == (0, 3)
