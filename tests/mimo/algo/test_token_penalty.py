"""The token penalty: every number of METHOD 6, conservation, clamps, no flips."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from mimo.algo.token_penalty import (
    MassBalance,
    TokenScales,
    mass_balance,
    penalized,
    token_masses,
    token_scales,
)
from tests.mimo.algo.batches import FORK


def applied(
    advantages: list[float], weights: list[float], tokens: list[int], flagged: list[int], skip: bool = False
) -> tuple[TokenScales, MassBalance, Tensor, Tensor]:
    own, weight = (torch.tensor(row, dtype=torch.float64) for row in (advantages, weights))
    masses = token_masses(own, weight, torch.tensor(tokens), torch.tensor(flagged))
    scales = token_scales(masses, **FORK._replace(skip_if_no_absorber=skip)._asdict())
    clean, hit = penalized(own, scales)
    return scales, mass_balance(masses, scales), clean, hit


TWO = [0.5, -0.5]
FOUR = [0.6, -0.4, 0.5, -0.5]
COUNTS, FLAGS = [4, 6, 2, 2], [1, 2, 0, 0]  # flags 0001 / 000110 / 00 / 00


@pytest.mark.parametrize(
    ("advantages", "weights", "tokens", "flagged", "alpha", "beta", "positive", "negative"),
    [  # METHOD 6.3, in its order
        (TWO, [1, 1], [10, 10], [2, 2], 1.25, 0.75, 5, -5),
        (TWO, [1, 1], [10, 10], [7, 7], 2, 0.5, 3.0, -7.75),
        (TWO, [1, 1], [10, 10], [10, 10], 1, 1, 0, -10),
        (FOUR, [1 / 20, 1 / 20, 1 / 8, 1 / 8], COUNTS, FLAGS, 1.139535, 0.804878, 0.245, -0.245),
        (FOUR, [1, 1, 1, 1], COUNTS, FLAGS, 1.214286, 0.692308, 3.4, -3.4),
    ],
)
def test_worked_examples(
    advantages: list[float],
    weights: list[float],
    tokens: list[int],
    flagged: list[int],
    alpha: float,
    beta: float,
    positive: float,
    negative: float,
) -> None:
    scales, balance, clean, hit = applied(advantages, weights, tokens, flagged)
    assert scales.alpha.item() == pytest.approx(alpha, abs=5e-7)
    assert scales.beta.item() == pytest.approx(beta, abs=5e-7)
    assert balance.pos_after.item() == pytest.approx(positive)
    assert balance.neg_after.item() == pytest.approx(negative)
    rows = zip(weights, tokens, flagged, clean.tolist(), hit.tolist(), strict=True)
    total = [w * ((n - f) * c + f * h) for w, n, f, c, h in rows]
    assert sum(value for value in total if value > 0) == pytest.approx(positive)
    assert sum(value for value in total if value < 0) == pytest.approx(negative)


def test_free_values_behind_the_clamps() -> None:
    """METHOD 6.3, second row: free 3.33 and -1.33."""
    scales, *_ = applied(TWO, [1, 1], [10, 10], [7, 7])
    assert scales.alpha_free.item() == pytest.approx(1 + 7 / 3)
    assert scales.beta_free.item() == pytest.approx(1 - 7 / 3)


@pytest.mark.parametrize(("flagged", "clamped"), [(50, False), (51, True)])
def test_no_clamp_up_to_half_of_the_positive_mass(flagged: int, clamped: bool) -> None:
    """METHOD 6.2: flagged share <= 1 - 1/alpha_max = 1/2."""
    scales, *_ = applied([0.5], [1], [100], [flagged])
    assert bool(scales.alpha < scales.alpha_free) == clamped


@pytest.mark.parametrize(("flagged", "clamped"), [(33, False), (34, True)])
def test_no_clamp_up_to_a_third_of_the_negative_mass(flagged: int, clamped: bool) -> None:
    """METHOD 6.2: flagged share <= (1 - beta_min) / (kappa - beta_min) = 1/3; beta < 0 at 1/kappa."""
    scales, *_ = applied([-0.5], [1], [100], [flagged])
    assert bool(scales.beta > scales.beta_free) == clamped
    assert applied([-0.5], [1], [100], [50])[0].beta_free.item() == pytest.approx(0)


def test_all_flagged_without_absorber() -> None:
    """METHOD 6.4: the positive side loses everything, the negative doubles, unless it is skipped."""
    _, balance, clean, hit = applied(TWO, [1, 1], [10, 10], [10, 10])
    assert hit.tolist() == [0.0, -1.0]
    assert clean.tolist() == TWO
    _, skipped, _, alone = applied(TWO, [1, 1], [10, 10], [10, 10], skip=True)
    assert alone.tolist() == [0.0, -0.5]
    assert (balance.neg_after.item(), skipped.neg_after.item()) == (-10.0, -5.0)


def test_skip_changes_nothing_where_something_absorbs() -> None:
    assert applied(TWO, [1, 1], [10, 10], [2, 2], skip=True)[0] == applied(TWO, [1, 1], [10, 10], [2, 2])[0]


def test_zero_advantage_and_empty_batch() -> None:
    """METHOD 6.4: A = 0 is untouched and in no mass."""
    scales, balance, clean, hit = applied([0.0, 0.5], [1, 1], [10, 10], [10, 2])
    assert scales.alpha.item() == pytest.approx(1.25)
    assert (clean[0].item(), hit[0].item()) == (0.0, 0.0)
    assert balance.pos_before.item() == pytest.approx(5)
    empty, nothing, *_ = applied([], [], [], [])
    assert (empty.alpha.item(), empty.beta.item(), nothing.pos_after.item()) == (1, 1, 0)


def test_a_clean_rollout_of_another_group_absorbs() -> None:
    """METHOD 6.4: batch-wide absorption, so a group no longer sums to zero over its tokens."""
    _, balance, clean, hit = applied([0.5, -0.5, 0.5, -0.5], [1] * 4, [10] * 4, [5, 0, 0, 0])
    group = 5 * clean[0] + 5 * hit[0] + 10 * clean[1]
    assert group.item() != pytest.approx(0, abs=1e-3)
    assert balance.pos_after.item() == pytest.approx(balance.pos_before.item())


ROWS = st.tuples(
    st.floats(-1, 1).filter(lambda value: value == 0 or abs(value) > 1e-6),
    st.floats(0.01, 1),
    st.integers(0, 50),
    st.floats(0, 1),
)


@given(st.lists(ROWS, max_size=12))
def test_mass_is_conserved_unclamped_and_signs_never_flip(
    rows: list[tuple[float, float, int, float]],
) -> None:
    """Scope of conservation: no clamp acts, and a side with flags has unflagged mass."""
    own, weight, tokens = ([row[at] for row in rows] for at in (0, 1, 2))
    flagged = [int(row[2] * row[3]) for row in rows]
    scales, balance, clean, hit = applied(own, weight, tokens, flagged)  # type: ignore[arg-type]
    mass = [abs(a) * w for a, w in zip(own, weight, strict=True)]
    for sign, free, scale, before, after in (
        (1, scales.alpha_free, scales.alpha, balance.pos_before, balance.pos_after),
        (-1, scales.beta_free, scales.beta, balance.neg_before, balance.neg_after),
    ):
        side = [(m, n, f) for a, m, n, f in zip(own, mass, tokens, flagged, strict=True) if a * sign > 0]
        absorber = sum(m * (n - f) for m, n, f in side) > 0 or not any(f for _, _, f in side)
        if absorber and torch.equal(free, scale):
            assert after.item() == pytest.approx(before.item(), abs=1e-9)
    for a, c, h in zip(own, clean.tolist(), hit.tolist(), strict=True):
        assert c * a >= 0
        assert h * a >= 0
        assert a != 0 or (c == 0 and h == 0)


def test_counter_example_clamps_break_conservation() -> None:
    """METHOD 6.2: positive alpha_max C+ < original, negative beta_min C- + kappa H- > original."""
    _, balance, *_ = applied(TWO, [1, 1], [10, 10], [7, 7])
    assert balance.pos_after.item() < balance.pos_before.item()
    assert balance.neg_after.item() < balance.neg_before.item()
