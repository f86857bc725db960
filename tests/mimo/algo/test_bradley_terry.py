"""Bradley-Terry: known answers, the ridge, ties, cycles."""

from __future__ import annotations

from math import log

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from mimo.algo.bradley_terry import bradley_terry


def strengths(wins: list[list[float]], ridge: float = 1e-6) -> list[float]:
    return bradley_terry(torch.tensor(wins, dtype=torch.float64), ridge=ridge, tolerance=1e-10).tolist()


def test_two_items_give_the_log_odds() -> None:
    """Three wins to one: t_0 - t_1 = log 3, without ridge."""
    first, second = strengths([[0, 3], [1, 0]], ridge=1e-9)
    assert first - second == pytest.approx(log(3), abs=1e-6)
    assert first + second == pytest.approx(0, abs=1e-9)


def test_an_undefeated_item_stays_finite() -> None:
    found = strengths([[0, 5, 5], [0, 0, 5], [0, 0, 0]], ridge=0.1)
    assert found[0] > found[1] > found[2]
    assert max(map(abs, found)) < 10
    weak = strengths([[0, 1000], [0, 0]], ridge=1e-3)
    assert 0 < weak[0] < 50


def test_ties_and_cycles_give_equal_strengths() -> None:
    assert strengths([[0, 0.5], [0.5, 0]]) == pytest.approx([0, 0], abs=1e-9)
    assert strengths([[0, 1, 0], [0, 0, 1], [1, 0, 0]]) == pytest.approx([0] * 3, abs=1e-9)
    assert strengths([[0, 0], [0, 0]]) == [0, 0]
    assert strengths([]) == []


@example([0, 1, 1, 0, 0, 0, 2, 2, 1, 1, 0, 6, 0, 0, 0, 0], [0, 1, 2, 3])
@given(st.lists(st.integers(0, 6), min_size=16, max_size=16), st.permutations(range(4)))
def test_first_order_condition_and_permutations(counts: list[int], order: list[int]) -> None:
    """At the answer expected wins plus the ridge equal the wins; relabelling items relabels strengths."""
    wins = torch.tensor(counts, dtype=torch.float64).reshape(4, 4)
    wins = wins - torch.diag(wins.diag())
    found = bradley_terry(wins, ridge=0.05, tolerance=1e-10)
    chance = torch.sigmoid(found[:, None] - found[None, :])
    assert torch.allclose(((wins + wins.T) * chance).sum(1) + 0.05 * found, wins.sum(1), atol=1e-8)
    moved = bradley_terry(wins[order][:, order], ridge=0.05, tolerance=1e-10)
    assert torch.allclose(moved, found[order], atol=1e-7)
