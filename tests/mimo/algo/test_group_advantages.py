"""Centring: worked numbers of METHOD 3.2 and 4.4, the sum, permutations, degenerate groups, std forms."""

from __future__ import annotations

from math import sqrt

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mimo.algo.group_advantages import divided_by_std, group_advantages
from tests.mimo.algo.batches import Rows, advantages

ALL = torch.ones(3, dtype=torch.bool)
ZERO = torch.zeros(3, dtype=torch.int64)


def centred(rewards: list[float]) -> list[float]:
    values = torch.tensor(rewards, dtype=torch.float64)
    group = torch.zeros(len(rewards), dtype=torch.int64)
    return group_advantages(values, torch.ones_like(group).bool(), group, 1).tolist()


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ([0.72, 0.25, 0.0, 0.0], [0.4775, 0.0075, -0.2425, -0.2425]),  # METHOD 3.2, row 1
        ([0.72, 0.25, 0.81, 0.42], [0.17, -0.30, 0.26, -0.13]),  # METHOD 3.2, row 2
        ([0.72, 0.25, 0.0, 0.0, 0.0], [0.526, 0.056, -0.194, -0.194, -0.194]),  # METHOD 3.2, row 3
        ([0.72] * 4, [0.0] * 4),  # METHOD 3.2, row 4
        ([1.0, 1.0, 1.0, 0.0, 0.0], [0.4, 0.4, 0.4, -0.6, -0.6]),  # METHOD 4.4: N=5, k=3
        ([1.0, 1.0, 0.0, 0.0, 0.0], [0.6, 0.6, -0.4, -0.4, -0.4]),  # METHOD 4.4: N=5, k=2
    ],
)
def test_worked_numbers(rewards: list[float], expected: list[float]) -> None:
    assert centred(rewards) == pytest.approx(expected, abs=1e-12)


def passing_total(size: int, passes: int) -> float:
    return passes * (1 - passes / size)


def test_only_five_rollouts_with_two_or_three_passes_total_1_20() -> None:
    """METHOD 4.4: unique, also if 1.20 is rounded to two decimals, for N < 400."""
    found = [
        (size, passes)
        for size in range(2, 400)
        for passes in range(1, size)
        if round(passing_total(size, passes), 2) == 1.20
    ]
    assert found == [(5, 2), (5, 3)]
    for size, passes in found:
        group = Rows(passed=[1] * passes + [0] * (size - passes))
        assert sum(value for value in advantages(group) if value > 0) == pytest.approx(1.2)


def test_std_normalisation_cannot_total_1_20() -> None:
    """METHOD 4.4: population totals are sqrt(k(N-k)), sample ones .707, 1.155, then at least 1.5."""
    for size in range(2, 400):
        for passes in range(1, size):
            population = sqrt(passes * (size - passes))
            sample = population * sqrt((size - 1) / size)
            assert round(population, 2) != 1.20
            assert round(sample, 2) != 1.20
            assert sample >= 1.5 - 1e-12 or round(sample, 3) in (0.707, 1.155)


@pytest.mark.parametrize(("std", "total"), [("population", sqrt(6)), ("sample", sqrt(6 * 4 / 5))])
def test_std_forms_give_the_totals_of_method_4_4(std: str, total: float) -> None:
    group = torch.zeros(5, dtype=torch.int64)
    valid = torch.ones(5, dtype=torch.bool)
    rewards = torch.tensor([1.0, 1, 1, 0, 0], dtype=torch.float64)
    centre = group_advantages(rewards, valid, group, 1)
    scaled = divided_by_std(centre, valid, group, 1, std=std, epsilon=0.0)  # type: ignore[arg-type]
    assert scaled[:3].sum().item() == pytest.approx(total)
    assert torch.equal(divided_by_std(centre, valid, group, 1, std="none", epsilon=0.0), centre)


def test_one_valid_rollout_gets_exactly_zero_with_and_without_std() -> None:
    """METHOD 11: verl takes mean 0 and std 1 there and gives the full reward."""
    valid = torch.tensor([True, False, False])
    rewards = torch.tensor([0.7, float("nan"), 5.0], dtype=torch.float64)
    centre = group_advantages(rewards, valid, ZERO, 1)
    assert centre.tolist() == [0.0, 0.0, 0.0]
    assert divided_by_std(centre, valid, ZERO, 1, std="sample", epsilon=1e-6).tolist() == [0.0] * 3


def test_empty_group_and_unordered_groups() -> None:
    group = torch.tensor([2, 0, 2])
    rewards = torch.tensor([1.0, 5.0, 0.0], dtype=torch.float64)
    assert group_advantages(rewards, ALL, group, 4).tolist() == [0.5, 0.0, -0.5]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20), st.randoms())
def test_sums_to_zero_and_follows_any_permutation(rewards: list[float], random: object) -> None:
    """Any rewards, any order; up to rounding of the sum."""
    scale = max(map(abs, rewards)) + 1
    values = centred(rewards)
    assert sum(values) == pytest.approx(0, abs=1e-10 * scale)
    order = list(range(len(rewards)))
    random.shuffle(order)  # type: ignore[attr-defined]
    moved = centred([rewards[at] for at in order])
    assert moved == pytest.approx([values[at] for at in order], abs=1e-10 * scale)


def test_dtype_follows_the_rewards() -> None:
    for dtype in (torch.float32, torch.float64):
        assert group_advantages(torch.ones(3, dtype=dtype), ALL, ZERO, 1).dtype == dtype
