"""The length penalty: every number of METHOD 5.1 to 5.3, numpy's quantile, the gate, its properties."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mimo.algo.length_penalty import LengthPenalty, combined_penalties, length_penalties, length_references
from tests.mimo.algo.batches import (
    GENERAL,
    LENGTHS,
    REFERENCE,
    Rows,
    advantages,
    graded_groups,
    groups,
    outcome,
)

FIVE = Rows([1, 1, 1, 1, 0], length=[100, 120, 150, 250, 400])


@pytest.mark.parametrize(
    ("penalty", "reference", "taken", "expected"),
    [
        (  # METHOD 5.2, reference profile
            REFERENCE,
            118,
            [0, 0.000441, 0.028244, 0.2, 0],
            [0.245737, 0.245296, 0.217493, 0.045737, -0.754263],
        ),
        (
            GENERAL,
            135,
            [0, 0, 0, 0.069998, 0],
            [0.214, 0.214, 0.214, 0.144001, -0.786],
        ),  # METHOD 5.2, general
    ],
)
def test_five_rollouts(
    penalty: LengthPenalty, reference: float, taken: list[float], expected: list[float]
) -> None:
    result = outcome(FIVE, length=penalty)
    assert result.groups.length_reference.item() == pytest.approx(reference)
    assert result.rollouts.length_penalty.tolist() == pytest.approx(taken, abs=5e-7)
    assert result.rollouts.advantage.tolist() == pytest.approx(expected, abs=1e-6)


def test_gate_is_strict_and_three_of_four_pass_it() -> None:
    """METHOD 5.2: 2 of 4 is not > 0.5; 3 of 4 with l = (100, 300, 150): l* = 130, pen = (0, .2, .012069)."""
    closed = outcome(Rows([1, 1, 0, 0], length=[100, 300, 1, 1]), length=REFERENCE)
    assert not closed.rollouts.length_penalty.any()
    assert closed.groups.length_reference.item() == 0
    opened = outcome(Rows([1, 1, 1, 0], length=[100, 300, 150, 1]), length=REFERENCE)
    assert opened.groups.length_reference.item() == pytest.approx(130)
    assert opened.rollouts.length_penalty.tolist() == pytest.approx([0, 0.2, 0.012069, 0], abs=5e-7)


def test_two_passes_of_three() -> None:
    """METHOD 5.2: l = 2, 8 (general): l* = 5, second penalty .1 (.3/.7)^1.5 = .028057."""
    result = outcome(Rows([1, 1, 0], length=[2, 8, 1]), length=GENERAL)
    assert result.groups.length_reference.item() == pytest.approx(5)
    assert result.rollouts.length_penalty.tolist() == pytest.approx([0, 0.1 * (0.3 / 0.7) ** 1.5, 0])
    assert round(result.rollouts.length_penalty[1].item(), 6) == 0.028057


SIXTEEN = Rows([1] * 15 + [0], length=[*[100] * 10, 110, 120, 150, 180, 400, 50])


def test_sixteen_rollouts() -> None:
    """METHOD 5.3, N = 16, k = 15: a pass can fall below the mean."""
    result = outcome(SIXTEEN, length=REFERENCE)
    assert result.groups.length_reference.item() == pytest.approx(100)
    taken = [0.006325, 0.017889, 0.070711, 0.143108, 0.2]
    assert result.rollouts.length_penalty[10:15].tolist() == pytest.approx(taken, abs=5e-7)
    expected = [0.089877, 0.083552, 0.071988, 0.019166, -0.053231, -0.110123, -0.910123]
    assert result.rollouts.advantage[9:].tolist() == pytest.approx(expected, abs=5e-7)
    for own, pen in zip(result.rollouts.advantage[:15], result.rollouts.length_penalty[:15], strict=True):
        flipped = pen > 1 / 16 + result.rollouts.length_penalty.sum() / 16  # METHOD 5.3: pen > A + mean(pen)
        assert bool(own < 0) == bool(flipped)


def test_class_default_profile_has_no_gate() -> None:
    """METHOD 5.1, third row: X=.3, d=0, s=1, g=1, B=50, gate 0."""
    default = LengthPenalty(0.3, 0.0, 1.0, 1.0, 50.0, 0.0)
    result = outcome(Rows([1, 1, 0, 0, 0, 0], length=[10, 16, 1, 1, 1, 1]), length=default)
    assert result.groups.length_reference.item() == pytest.approx(13)
    assert result.rollouts.length_penalty[1].item() == pytest.approx(0.3 * (16 / 13 - 1))


def test_grs_multiplies_and_stays_at_or_above_zero() -> None:
    """METHOD 5.3: R (1 - pen), or a pass with R = .1 would go below a failure."""
    group = Rows([1, 1, 1, 0], solution=[0.1, 0.9, 0.9, 0], behavior=[1, 1, 1, 1], length=[300, 100, 150, 1])
    result = outcome(group, methods=("grs",), length=REFERENCE)
    assert result.rollouts.reward[0].item() == pytest.approx(0.1 * 0.8)
    assert result.rollouts.advantage[0] > result.rollouts.advantage[3]
    harsh = LengthPenalty(3.0, 0.0, 1.0, 1.0, 30.0, 0.5)
    assert outcome(group, methods=("grs",), length=harsh).rollouts.reward[0].item() == 0


def test_success_of_a_grs_group_is_the_test_flag() -> None:
    """METHOD 3.3: a pass with .25 is a success, for the gate and for the reference."""
    group = Rows([1, 1, 1, 0], solution=[0.25, 0.3, 0.2, 0], behavior=[1, 1, 1, 1], length=[100, 300, 150, 1])
    assert outcome(group, methods=("grs",), length=REFERENCE).groups.length_reference.item() == 130


def test_zero_lengths_and_invalid_rollouts() -> None:
    """METHOD 5.1: an anchor <= 0 is skipped. Invalid rollouts enter neither rate nor quantile."""
    assert not outcome(
        Rows([1, 1, 1, 0], length=[0, 0, 0, 5]), length=REFERENCE
    ).rollouts.length_penalty.any()
    group = Rows([1, 1, 1, 0, 1], length=[100, 300, 150, 1, 9999], valid=[1, 1, 1, 1, 0])
    result = outcome(group, length=REFERENCE)
    assert result.groups.length_reference.item() == 130
    assert result.rollouts.length_penalty[4] == 0


@given(st.lists(st.lists(LENGTHS, max_size=9), min_size=1, max_size=5), st.floats(0, 100))
def test_reference_is_numpys_linear_quantile(rows: list[list[float]], percentile: float) -> None:
    group = torch.repeat_interleave(torch.tensor([len(row) for row in rows]))
    lengths = torch.tensor([value for row in rows for value in row], dtype=torch.float64)
    order = torch.randperm(len(group))
    found = length_references(
        lengths[order], torch.ones(len(group)).bool(), group[order], len(rows), percentile=percentile
    )
    expected = [np.percentile(row, percentile) if row else 0.0 for row in rows]
    assert found.tolist() == pytest.approx(expected, rel=1e-12)


def test_every_group_has_its_own_constants() -> None:
    lengths = torch.tensor([100.0, 120, 150, 250, 400] * 2, dtype=torch.float64)
    group = torch.repeat_interleave(torch.tensor([5, 5]))
    passed = torch.tensor([1, 1, 1, 1, 0] * 2).bool()
    both = LengthPenalty(
        *(torch.tensor(pair, dtype=torch.float64) for pair in zip(REFERENCE, GENERAL, strict=True))
    )
    taken, reference = length_penalties(lengths, passed, torch.ones(10).bool(), group, 2, penalty=both)
    assert reference.tolist() == pytest.approx([118, 135])
    assert taken[[3, 8]].tolist() == pytest.approx([0.2, 0.069998], abs=5e-7)


def test_several_lengths_combined() -> None:
    """METHOD 5.1: max (the fork's reference), mean, weighted."""
    penalties = torch.tensor([[0.2, 0.0], [0.1, 0.05]], dtype=torch.float64)
    weights = torch.tensor([3.0, 1.0], dtype=torch.float64)
    found = {
        how: combined_penalties(penalties, how=how, weights=weights) for how in ("max", "mean", "weighted")
    }  # type: ignore[arg-type]
    assert found["max"].tolist() == pytest.approx([0.2, 0.05])
    assert found["mean"].tolist() == pytest.approx([0.15, 0.025])
    assert found["weighted"].tolist() == pytest.approx([0.175, 0.0125])


@given(graded_groups(), st.floats(0, 0.999), st.sampled_from(["plain", "gar"]), st.booleans())
def test_a_failure_is_never_above_a_pass_below_maximum_one(
    group: Rows, most: float, method: str, keep: bool
) -> None:
    """Scope: binary rewards, max < 1, plain and GAR, `zero` and `keep`."""
    penalty = REFERENCE._replace(max=most)
    values = advantages(group, method, length=penalty, keep=keep, cap=1.5)  # type: ignore[arg-type]
    passes = [value for value, won in zip(values, group.passed, strict=True) if won]
    fails = [value for value, won in zip(values, group.passed, strict=True) if not won]
    assert max(fails) <= min(passes) + 1e-12
    assert max(fails) <= 1e-12


def test_counter_example_a_maximum_above_one_puts_a_pass_below_a_failure() -> None:
    harsh = REFERENCE._replace(max=1.5)
    values = advantages(Rows([1, 1, 1, 0], length=[10, 10, 90, 1]), length=harsh)
    assert values[2] < values[3]


@given(groups())
def test_penalty_is_bounded_and_the_group_still_sums_to_zero(group: Rows) -> None:
    result = outcome(group, length=REFERENCE)
    pen = result.rollouts.length_penalty
    assert ((pen >= 0) & (pen <= 0.2)).all()
    assert not pen[~(result.rollouts.passed & result.rollouts.valid)].any()
    assert result.rollouts.advantage.sum().item() == pytest.approx(0, abs=1e-12)


@given(st.lists(LENGTHS, min_size=1, max_size=16, unique=True), st.floats(0, 100))
def test_share_of_docked_passes(lengths: list[float], percentile: float) -> None:
    """At most k - 1 - floor(B (k-1) / 100) passes lie above l*: with few passes more than 1 - B of them.

    METHOD 5.3 says «up to 70 %» for B = 30 and «less than half» for B = 50. Its own examples are beyond that:
    3 of 4 (75 %) in the first of 5.2, one of two (half) in the last.
    """
    group = Rows([1] * len(lengths) + [0], length=[*lengths, 1.0])
    taken = outcome(group, length=REFERENCE._replace(percentile=percentile, gate=0.0)).rollouts.length_penalty
    count = len(lengths)
    assert (taken > 0).sum() <= count - 1 - int(percentile / 100 * (count - 1))


def test_counter_example_to_seventy_percent_and_to_less_than_half() -> None:
    three = outcome(FIVE, length=REFERENCE).rollouts.length_penalty
    assert (three > 0).sum() == 3  # of four passes
    half = outcome(Rows([1, 1, 0], length=[2, 8, 1]), length=GENERAL).rollouts.length_penalty
    assert (half > 0).sum() == 1  # of two passes
