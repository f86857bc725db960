"""Loss weights: three aggregations against their definitions, drops, totals that add over ranks."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from mimo.algo.loss_weights import Aggregation, batch_totals, loss_weights

GROUP = torch.tensor([0, 0, 1, 1, 2])
TOKENS = torch.tensor([4, 6, 2, 0, 9])
COUNTED = torch.tensor([True, True, True, True, False])


def weights(aggregation: Aggregation, counted: Tensor = COUNTED) -> list[float]:
    totals = batch_totals(TOKENS, counted, GROUP, 3)
    return loss_weights(TOKENS, counted, GROUP, totals, aggregation=aggregation, dtype=torch.float64).tolist()


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [
        ("prompt-mean", [1 / 20, 1 / 20, 1 / 4, 0, 0]),  # 1 / (n_prompts * T_g): two prompts left
        ("token-mean", [1 / 12, 1 / 12, 1 / 12, 0, 0]),
        ("sequence-mean", [1 / 12, 1 / 18, 1 / 6, 0, 0]),  # three rollouts with tokens
    ],
)
def test_definitions(aggregation: Aggregation, expected: list[float]) -> None:
    assert weights(aggregation) == pytest.approx(expected)


def test_weights_of_the_worked_example() -> None:
    """METHOD 6.3, fourth row: groups of 4+6 and 2+2 tokens give w = (1/20, 1/20, 1/8, 1/8)."""
    tokens, group = torch.tensor([4, 6, 2, 2]), torch.tensor([0, 0, 1, 1])
    everyone = torch.ones(4, dtype=torch.bool)
    totals = batch_totals(tokens, everyone, group, 2)
    found = loss_weights(tokens, everyone, group, totals, aggregation="prompt-mean", dtype=torch.float64)
    assert found.tolist() == pytest.approx([1 / 20, 1 / 20, 1 / 8, 1 / 8])


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 30), st.booleans()), min_size=1, max_size=20),
    st.sampled_from(["prompt-mean", "token-mean", "sequence-mean"]),
)
def test_weights_times_tokens_sum_to_one(rows: list[tuple[int, int, bool]], aggregation: Aggregation) -> None:
    """Any batch in which some counted rollout has tokens; else all weights are 0."""
    group, tokens, counted = (torch.tensor([row[at] for row in rows]) for at in range(3))
    totals = batch_totals(tokens, counted, group, 5)
    found = loss_weights(tokens, counted, group, totals, aggregation=aggregation, dtype=torch.float64)
    some = bool((tokens[counted] > 0).any())
    assert (found * tokens).sum().item() == pytest.approx(1.0 if some else 0.0)
    assert not found[~counted].any()


def test_totals_add_over_parts() -> None:
    whole = batch_totals(TOKENS, COUNTED, GROUP, 3)
    parts = [
        batch_totals(TOKENS[at], COUNTED[at], GROUP[at], 3) for at in (slice(0, 1), slice(1, 4), slice(4, 5))
    ]
    assert torch.equal(sum(parts[1:], parts[0]), whole)


def test_big_batches_do_not_round_in_float32() -> None:
    """250M tokens: sums are taken in int64 before they become a weight."""
    tokens = torch.full((25_088,), 10_001)
    group = torch.repeat_interleave(torch.arange(1568), 16)
    everyone = torch.ones_like(group).bool()
    totals = batch_totals(tokens, everyone, group, 1568)
    assert totals[:-1].sum().item() == 25_088 * 10_001
    found = loss_weights(tokens, everyone, group, totals, aggregation="token-mean", dtype=torch.float32)
    assert found[0].item() == pytest.approx(1 / (25_088 * 10_001), rel=1e-7)
