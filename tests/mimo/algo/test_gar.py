"""Groupwise Advantage Redistribution: every number of METHOD 4 and 5.4, its properties and where they end."""

from __future__ import annotations

from itertools import pairwise
from math import inf, nan

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mimo.algo.gar import token_mass_scale
from mimo.algo.outcomes import FALLBACKS
from tests.mimo.algo.batches import FACTORS, REFERENCE, Rows, advantages, graded_groups, outcome

FIVE = [1, 1, 1, 0, 0]


def passing(values: list[float], group: Rows) -> list[float]:
    return [value for value, won in zip(values, group.passed, strict=True) if won]


@pytest.mark.parametrize(
    ("group", "cap", "scale", "expected", "total"),
    [  # METHOD 4.5, in its order
        (
            Rows(FIVE, quality=[1, 0.6, 0.3, 1, 1]),
            inf,
            30 / 19,
            [0.631579, 0.378947, 0.189474, -0.6, -0.6],
            1.2,
        ),
        (Rows(FIVE, quality=[1, 0.6, 0.3, 1, 1]), 1.5, 30 / 19, [0.612, 0.372, 0.192, -0.588, -0.588], 1.176),
        (
            Rows(FIVE, quality=[1, 0.6, 0.3, 1, 1], leak=[0, 0, 1, 0, 0]),
            inf,
            1.25,
            [0.75, 0.45, -0.4, -0.4, -0.4],
            1.2,
        ),
        (
            Rows(FIVE, quality=[1, 0.5, 0.25, 1, 1]),
            inf,
            12 / 7,
            [0.685714, 0.342857, 0.171429, -0.6, -0.6],
            1.2,
        ),
        (Rows(FIVE, quality=[1, 0.5, 0.25, 1, 1]), 1.5, 12 / 7, [0.63, 0.33, 0.18, -0.57, -0.57], 1.14),
        (Rows([1, 1, 0], quality=[1, 0.5, 1]), inf, 4 / 3, [0.444444, 0.222222, -0.666667], 2 / 3),
        (Rows(FIVE, quality=[0.3] * 5), inf, 1 / 0.3, [0.4, 0.4, 0.4, -0.6, -0.6], 1.2),
        (Rows(FIVE, quality=[0.3] * 5), 1.5, 1 / 0.3, [0.312, 0.312, 0.312, -0.468, -0.468], 0.936),
        (Rows([1, 0, 0], quality=[0.7, 1, 1]), inf, 1 / 0.7, [2 / 3, -1 / 3, -1 / 3], 2 / 3),
    ],
)
def test_worked_examples(group: Rows, cap: float, scale: float, expected: list[float], total: float) -> None:
    result = outcome(group, methods=("gar",), cap=cap)
    values = result.rollouts.advantage
    assert values.tolist() == pytest.approx(expected, abs=5e-7)
    assert values[values > 0].sum().item() == pytest.approx(total)
    assert values.sum().item() == pytest.approx(0, abs=1e-12)
    assert result.groups.scale.item() == pytest.approx(scale)
    assert result.groups.scale_applied.item() == pytest.approx(min(scale, cap))
    assert result.groups.capped.item() == (scale > cap)


@pytest.mark.parametrize("passed", [[0, 0, 0], [1, 1, 1]])
def test_no_pass_and_all_pass_do_nothing(passed: list[int]) -> None:
    """METHOD 4.5: k = 0 or k = N is 0/0, all zero."""
    result = outcome(Rows(passed, quality=[1, 0.5, 0.2]), methods=("gar",))
    assert result.rollouts.advantage.tolist() == [0.0] * 3
    assert not result.groups.redistributed.item()


@pytest.mark.parametrize(
    ("factors", "scale", "applied", "largest"),
    [  # METHOD 4.6: maxima of the public dashboard, five decimals; N = 16, cap 1.5, then recentred
        ([1, 0.85, 0.4], 1.3333, 1.3333, 1.08333),
        ([1, 0.85, 0.4, 0.2], 1.6327, 1.5, 1.14023),
        ([1, 1, 0.2], 1.3636, 1.3636, 1.10795),
        ([1, 0.2, 0.2], 2.1429, 1.5, 1.26445),
    ],
)
def test_dashboard_maxima(factors: list[float], scale: float, applied: float, largest: float) -> None:
    rest = 16 - len(factors)
    group = Rows([1] * len(factors) + [0] * rest, quality=factors + [1.0] * rest)
    result = outcome(group, methods=("gar",), cap=1.5)
    assert round(result.rollouts.advantage.max().item(), 5) == largest
    assert round(result.groups.scale.item(), 4) == scale
    assert round(result.groups.scale_applied.item(), 4) == applied
    assert abs(result.rollouts.advantage.sum().item()) < 1e-14


def test_capped_row_of_the_conservation_table() -> None:
    """METHOD 4.3: D, passing sum, failures, ratio and largest pass after cap and recentring."""
    size, passes, cap, factors = 5, 3, 1.5, [1.0, 0.6, 0.3]
    own, mean = 1 - passes / size, sum(factors) / 3
    result = outcome(Rows(FIVE, quality=[*factors, 1, 1]), methods=("gar",), cap=cap)
    deficit = passes * own * (1 - cap * mean)
    first, second, _, fail, _ = result.rollouts.advantage.tolist()
    assert result.groups.deficit.item() == pytest.approx(deficit)
    assert result.rollouts.advantage[:3].sum().item() == pytest.approx(
        passes * own - deficit * (1 - passes / size)
    )
    assert fail == pytest.approx(-(passes - deficit) / size)
    assert first == pytest.approx(cap * own + deficit / size)
    assert first / second == pytest.approx((cap * own + deficit / size) / (cap * 0.6 * own + deficit / size))
    bare = outcome(Rows(FIVE, quality=[*factors, 1, 1]), methods=("gar",), cap=cap, recentre=False)
    assert bare.rollouts.advantage.sum().item() == pytest.approx(-deficit)


def test_squares_grow_by_the_variance_of_the_factors() -> None:
    """METHOD 4.3: sum A^2 is not conserved; it grows by A^2 k Var(f) / fbar^2."""
    factors = torch.tensor([1.0, 0.6, 0.3], dtype=torch.float64)
    before, after = advantages(Rows(FIVE)), advantages(Rows(FIVE, quality=[1, 0.6, 0.3, 1, 1]), "gar")
    grown = 0.4**2 * 3 * factors.var(correction=0) / factors.mean() ** 2
    assert sum(v**2 for v in after) - sum(v**2 for v in before) == pytest.approx(grown.item())


def test_token_mass_is_not_conserved() -> None:
    """METHOD 4.3: lengths (100,200,400,300,300): 280 -> 214.737, failures stay -360; lam_tok = 280/136."""
    tokens = [100, 200, 400, 300, 300]
    group = Rows(FIVE, quality=[1, 0.6, 0.3, 1, 1])
    mass = [
        sum(t * v for t, v in zip(tokens, vs, strict=True) if v > 0)
        for vs in (advantages(Rows(FIVE)), advantages(group, "gar"))
    ]
    assert mass == pytest.approx([280, 214.737], abs=5e-4)
    assert sum(
        t * v for t, v in zip(tokens, advantages(group, "gar"), strict=True) if v < 0
    ) == pytest.approx(-360)
    own = torch.tensor(advantages(Rows(FIVE)), dtype=torch.float64)
    scale = token_mass_scale(
        own,
        torch.tensor([1, 0.6, 0.3, 1, 1], dtype=torch.float64),
        own > 0,
        torch.tensor(tokens),
        torch.zeros(5, dtype=torch.int64),
        num_groups=1,
    )
    assert scale.item() == pytest.approx(280 / 136)
    assert round(scale.item(), 6) == 2.058824


def test_down_weighting_alone_pushes_the_group_below_zero() -> None:
    """METHOD 4.3: without conservation the group's sum is -D."""
    own = advantages(Rows(FIVE))
    only = [a * f for a, f in zip(own, [1, 0.6, 0.3, 1, 1], strict=True)]
    assert sum(only) == pytest.approx(-(1.2 - 0.4 * 1.9))


def test_reward_space_form() -> None:
    """METHOD 4.1 (paper A.3): R' = Rbar + (1 - Rbar) f / mean_P(f), then centred, is the uncapped rule."""
    factors = [1, 0.6, 0.3]
    edited = [0.6 + 0.4 * f / (1.9 / 3) for f in factors] + [0.0, 0.0]
    expected = advantages(Rows(FIVE, quality=[*factors, 1, 1]), "gar")
    assert advantages(Rows(FIVE, reward=edited)) == pytest.approx(expected)


LENGTHS = {"passed": [1, 1, 1, 1, 0], "quality": [1, 0.9, 0.85, 0.4, 1], "length": [100, 120, 150, 250, 400]}


def test_with_length_penalty_eq_8() -> None:
    """METHOD 5.4: Eq. 8, lam = 1.126325."""
    result = outcome(Rows(**LENGTHS), methods=("gar",), cap=1.5, length=REFERENCE)  # type: ignore[arg-type]
    expected = [0.27678, 0.248655, 0.208222, 0.020606, -0.754263]
    assert result.rollouts.advantage.tolist() == pytest.approx(expected, abs=5e-7)
    assert round(result.groups.scale.item(), 6) == 1.126325


def test_without_length_penalty() -> None:
    """METHOD 5.4: GAR only, lam = 1.269841."""
    result = outcome(Rows(**LENGTHS), methods=("gar",), cap=1.5)  # type: ignore[arg-type]
    expected = [0.253968, 0.228571, 0.215873, 0.101587, -0.8]
    assert result.rollouts.advantage.tolist() == pytest.approx(expected, abs=5e-7)
    assert round(result.groups.scale.item(), 6) == 1.269841


def test_length_after_gar() -> None:
    """METHOD 5.4: GAR first, then length in advantage space."""
    values = advantages(Rows(**LENGTHS), "gar", cap=1.5, length=REFERENCE, length_position="post_gar")  # type: ignore[arg-type]
    assert values == pytest.approx([0.299705, 0.273867, 0.233366, -0.052676, -0.754263], abs=5e-7)


SIXTEEN = Rows(
    [1] * 15 + [0],
    quality=[1, *[0.9] * 9, 0.85, 0.85, 0.625, 0.4, 0.4, 1],
    length=[*[100] * 10, 110, 120, 150, 180, 400, 9999],
)


def test_zero_and_keep_below_the_mean() -> None:
    """METHOD 5.4, N = 16: lam = 1.1158 for both; `keep` conserves without recentring."""
    zero = outcome(SIXTEEN, methods=("gar",), length=REFERENCE)
    keep = outcome(SIXTEEN, methods=("gar",), length=REFERENCE, keep=True, recentre=False)
    assert [round(one.groups.scale.item(), 4) for one in (zero, keep)] == [1.1158, 1.1158]
    assert zero.rollouts.advantage[13:].tolist() == pytest.approx([-0.01021, -0.01021, -0.920333], abs=5e-6)
    assert keep.rollouts.advantage[13:].tolist() == pytest.approx([-0.053231, -0.110123, -0.910123], abs=5e-7)
    before = outcome(SIXTEEN, methods=("plain",), length=REFERENCE).rollouts.advantage
    after = keep.rollouts.advantage
    assert after[after > 0].sum().item() == pytest.approx(before[before > 0].sum().item())
    assert after.sum().item() == pytest.approx(0, abs=1e-12)
    lost = zero.rollouts.advantage
    assert lost[lost > 0].sum().item() != pytest.approx(before[before > 0].sum().item(), abs=1e-3)


@pytest.mark.parametrize("bad", [nan, 0.0, -0.3, 1.2, inf, -inf])
def test_unusable_factor_keeps_the_whole_groups_advantages(bad: float) -> None:
    """METHOD 4.7: zero, NaN, negative, out-of-range, infinite factor on a pass."""
    result = outcome(Rows(FIVE, quality=[1, bad, 0.3, 1, 1]), methods=("gar",), cap=1.5)
    assert result.rollouts.advantage.tolist() == pytest.approx([0.4, 0.4, 0.4, -0.6, -0.6])
    assert FALLBACKS[int(result.groups.fallback)] == "a passing rollout has no quality in (0, 1]"
    assert not result.groups.redistributed.item()


@pytest.mark.parametrize("bad", [nan, 0.0, -0.3, 1.2, inf])
def test_factors_of_failures_leaks_and_invalid_rollouts_are_never_read(bad: float) -> None:
    group = Rows(
        [1, 1, 1, 0, 1], quality=[1, 0.6, bad, bad, bad], leak=[0, 0, 1, 0, 0], valid=[1, 1, 1, 1, 0]
    )
    result = outcome(group, methods=("gar",))
    assert result.groups.redistributed.item()
    assert result.rollouts.advantage.tolist() == pytest.approx([0.625, 0.375, -0.5, -0.5, 0.0])


def test_no_pass_above_the_mean_is_a_fallback() -> None:
    """METHOD 4.1: denominator 0 -> no redistribution; rewards given by the task can do that."""
    result = outcome(Rows([1, 0, 0], reward=[0.1, 0.9, 0.8], quality=[0.5, 1, 1]), methods=("gar",))
    assert FALLBACKS[int(result.groups.fallback)] == "no passing rollout is above the mean"
    assert result.rollouts.advantage.tolist() == pytest.approx([-0.5, 0.3, 0.2])


def test_bad_groups_leave_their_neighbours_alone() -> None:
    good, bad = Rows(FIVE, quality=[1, 0.6, 0.3, 1, 1]), Rows(FIVE, quality=[nan] * 5)
    values = outcome(bad, good, bad, methods=("gar",)).rollouts.advantage.tolist()
    assert values[5:10] == pytest.approx(advantages(good, "gar"))
    assert values[:5] == pytest.approx([0.4, 0.4, 0.4, -0.6, -0.6])


@given(graded_groups())
def test_uncapped_with_equal_rewards(group: Rows) -> None:
    """Scope: rewards 1 on the passes, cap not binding. Mass, signs, order and the zero sum are kept."""
    before, after = advantages(group), advantages(group, "gar")
    tolerance = 1e-9 * len(before)
    assert sum(passing(after, group)) == pytest.approx(sum(passing(before, group)), abs=tolerance)
    assert sum(after) == pytest.approx(0, abs=tolerance)
    ranked = sorted(zip(passing(list(group.quality or []), group), passing(after, group), strict=True))
    assert all(low[1] <= high[1] + tolerance for low, high in pairwise(ranked))
    for old, new, won in zip(before, after, group.passed, strict=True):
        assert (new > 0) == (old > 0) or abs(new) < tolerance
        assert won or new == pytest.approx(old, abs=tolerance)


@given(graded_groups(), FACTORS)
def test_uniform_quality_changes_nothing_uncapped(group: Rows, factor: float) -> None:
    group.quality = [factor] * len(group.passed)
    assert advantages(group, "gar") == pytest.approx(advantages(group), abs=1e-12)


@given(graded_groups(), st.floats(1.0, 3.0))
def test_capped_and_recentred(group: Rows, cap: float) -> None:
    """Any cap >= 1: zero sum, signs and order kept, and the passing mass is never above the original."""
    before, after = advantages(group), advantages(group, "gar", cap=cap)
    assert sum(after) == pytest.approx(0, abs=1e-9)
    assert sum(passing(after, group)) <= sum(passing(before, group)) + 1e-9
    assert all(value >= -1e-12 for value in passing(after, group))
    fails = [value for value, won in zip(after, group.passed, strict=True) if not won]
    assert all(value <= 1e-12 for value in fails)


def test_counter_example_a_binding_cap_takes_mass_and_damps_uniform_quality() -> None:
    """METHOD 4.3: f below 1/cap on average; so the two properties above hold uncapped only."""
    capped = advantages(Rows(FIVE, quality=[0.3] * 5), "gar", cap=1.5)
    assert sum(capped[:3]) == pytest.approx(0.936)
    assert capped != pytest.approx(advantages(Rows(FIVE)))


def test_counter_example_lengths_break_order_and_mass() -> None:
    """A length penalty can put the better factor lower; `zero` loses a docked pass's negative part."""
    group = Rows([1, 1, 1, 0, 0], quality=[1.0, 0.9, 0.5, 1, 1], length=[900, 100, 100, 100, 100])
    values = advantages(group, "gar", length=REFERENCE)
    assert values[0] < values[1]
    plain, zero = (advantages(SIXTEEN, method, length=REFERENCE) for method in ("plain", "gar"))
    assert sum(zero[:15]) != pytest.approx(sum(plain[:15]), abs=1e-3)


def test_counter_example_one_pass_is_not_always_unchanged() -> None:
    """METHOD 4.7 calls grading one pass without effect; with the cap a factor below 2/3 damps it.

    N = 3, k = 1, f = .3, cap 1.5: 2/3 -> 19/45 = .4222.
    """
    alone = Rows([1, 0, 0], quality=[0.3, 1, 1])
    assert advantages(alone, "gar") == pytest.approx(advantages(Rows([1, 0, 0])))
    capped = advantages(alone, "gar", cap=1.5)
    assert capped == pytest.approx([19 / 45, -19 / 90, -19 / 90])
