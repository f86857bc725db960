"""The order of operations over a batch: what comes before what, mixed methods, equivariance, dtypes."""

from __future__ import annotations

from math import inf, nan

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mimo.algo.batch import Method, Settings, TokenPenalty, methods_tensor
from mimo.algo.length_penalty import LengthPenalty
from mimo.algo.order import ordered_advantages
from mimo.algo.outcomes import BatchAdvantages
from mimo.algo.spans import spans_within, token_advantages
from tests.mimo.algo.batches import FORK, OFF, REFERENCE, Rows, advantages, batch_of, groups, outcome


def test_infra_failures_leave_every_statistic() -> None:
    """METHOD 7, step 1: N is the valid count, whatever the failed rollouts hold."""
    dirty = Rows([1, 1, 0, 1], valid=[1, 1, 1, 0], reward=[1, 1, 0, nan], length=[10, 90, 1, nan])
    clean = Rows([1, 1, 0], length=[10, 90, 1])
    got, expected = (outcome(one, length=REFERENCE) for one in (dirty, clean))
    assert got.rollouts.advantage.tolist() == pytest.approx([*expected.rollouts.advantage.tolist(), 0.0])
    assert got.tokens.weight[3].item() == 0
    assert got.rollouts.reward[3].item() == 0


def test_dropped_groups_count_neither_in_weights_nor_in_masses() -> None:
    """METHOD 7: step 8 before step 10."""
    kept, dropped = Rows([1, 0], spans=[(0, 0, 2)]), Rows([1, 1], tokens=[1000, 1000], spans=[(0, 0, 900)])
    alone = outcome(kept, token_penalty=FORK)
    beside = outcome(kept, dropped, dropped, token_penalty=FORK)
    assert beside.tokens.weight.tolist() == pytest.approx([1 / 20, 1 / 20, 0, 0, 0, 0])
    assert beside.tokens.scales == alone.tokens.scales
    assert beside.tokens.balance == alone.tokens.balance


def test_token_masses_are_taken_with_the_loss_weights() -> None:
    """METHOD 6.3, rows 4 and 5 in one batch: prompt-mean and token-mean give different scales."""
    # Rewards that centre to A = (.5, -.5) in both groups; the table's first group is asymmetric, so it is
    # given by hand in test_token_penalty; here the weights differ by group length.
    one, two = Rows([1, 0], tokens=[4, 6], spans=[(0, 3, 4), (1, 3, 5)]), Rows([1, 0], tokens=[2, 2])
    prompt = outcome(one, two, token_penalty=FORK)
    token = outcome(one, two, token_penalty=FORK, aggregation="token-mean")
    assert prompt.tokens.scales is not None
    assert token.tokens.scales is not None
    assert prompt.tokens.scales.alpha.item() == pytest.approx(1 + (1 / 20) / (3 / 20 + 2 / 8))
    assert token.tokens.scales.alpha.item() == pytest.approx(1 + 1 / 5)
    for result in (prompt, token):
        assert result.tokens.balance is not None
        before, after, low_before, low_after = result.tokens.balance
        assert after.item() == pytest.approx(before.item())
        assert low_after.item() == pytest.approx(low_before.item())


def test_without_token_penalty_flagged_tokens_are_like_the_others() -> None:
    result = outcome(Rows([1, 0], spans=[(0, 0, 5)]))
    assert result.tokens.scales is None
    assert torch.equal(result.tokens.clean, result.tokens.flagged)


def test_token_values_of_a_micro_batch() -> None:
    group = Rows([1, 0, 0], tokens=[3, 2, 4], spans=[(0, 1, 2), (2, 0, 1), (2, 0, 2)])
    batch, result = batch_of(group), outcome(group, token_penalty=FORK)
    chosen = torch.tensor([2, 0])
    values = token_advantages(
        result.tokens.clean[chosen],
        result.tokens.flagged[chosen],
        batch.tokens[chosen],
        spans_within(result.tokens.spans, chosen),
    )
    own = result.rollouts.advantage
    assert result.tokens.scales is not None
    alpha, beta = result.tokens.scales.alpha.item(), result.tokens.scales.beta.item()
    third, first = own[2].item(), own[0].item()
    expected = [2 * third] * 2 + [beta * third] * 2 + [alpha * first, 0.0, alpha * first]
    assert values.tolist() == pytest.approx(expected)


METHODS: list[Method] = ["plain", "grs", "gar"]
BATCHES = st.lists(st.tuples(groups(), st.sampled_from(METHODS)), min_size=1, max_size=4)


def run(rows: list[tuple[Rows, Method]], dtype: torch.dtype = torch.float64) -> BatchAdvantages:
    return outcome(
        *(row[0] for row in rows),
        methods=[row[1] for row in rows],
        cap=1.5,
        floor=0.1,
        length=REFERENCE,
        token_penalty=FORK,
        dtype=dtype,
    )


@given(BATCHES)
def test_groups_do_not_touch_each_other_before_the_weights(rows: list[tuple[Rows, Method]]) -> None:
    """Any mixture of plain, GRS and GAR: each group's advantages are those it has alone; nothing is NaN."""
    together = run(rows).rollouts.advantage
    alone = torch.cat([run([row]).rollouts.advantage for row in rows])
    assert torch.allclose(together, alone, atol=1e-12)
    for part in run(rows).tokens[:3]:
        assert part.isfinite().all()  # type: ignore[union-attr]


@given(BATCHES, st.randoms(use_true_random=False))
def test_any_order_of_rollouts_gives_the_same(rows: list[tuple[Rows, Method]], random: object) -> None:
    """Permutation-equivariant over the whole batch, groups interleaved."""
    batch = batch_of(*(row[0] for row in rows))
    order = list(range(len(batch.group)))
    random.shuffle(order)  # type: ignore[attr-defined]
    place = torch.tensor(order, dtype=torch.int64)
    moved = batch._replace(**{name: getattr(batch, name)[place] for name in batch._fields if name != "spans"})
    settings = Settings(methods_tensor([row[1] for row in rows]), 1.5, False, True, 0.1, REFERENCE)
    first, second = (
        ordered_advantages(
            one,
            settings,
            aggregation="prompt-mean",
            token_penalty=FORK,
            spread_epsilon=1e-9,
            length_position="reward",
            total=lambda local: local,
        )
        for one in (batch, moved)
    )
    for name in first.rollouts._fields:
        assert torch.allclose(
            getattr(first.rollouts, name)[place].double(), getattr(second.rollouts, name).double()
        )
    assert torch.allclose(first.tokens.clean[place], second.tokens.clean)


@given(BATCHES)
def test_invariants_of_method_7(rows: list[tuple[Rows, Method]]) -> None:
    """Zero sum per group; plain and GAR failures <= 0 and never above a pass; dropped groups silent."""
    batch, result = batch_of(*(row[0] for row in rows)), run(rows)
    own, seen = result.rollouts, 0
    for number, (row, method) in enumerate(rows):
        at = slice(seen, seen + len(row.passed))
        seen = at.stop
        values, member = own.advantage[at], own.valid[at]
        assert values.sum().item() == pytest.approx(0, abs=1e-10)
        assert not values[~member].any()
        if not result.groups.accepted[number]:
            assert not values.any()
            continue
        passes, fails = values[own.passed[at] & member], values[~own.passed[at] & member]
        if method != "grs":
            assert (fails <= 1e-12).all()
        assert fails.max() <= passes.min() + 1e-12 if len(fails) else True
    assert batch.group.shape == own.advantage.shape


@given(BATCHES)
def test_float32_agrees_with_float64(rows: list[tuple[Rows, Method]]) -> None:
    """float32 in, float32 out, within its rounding (relative to factors down to .01)."""
    single, double = run(rows, torch.float32), run(rows)
    assert single.rollouts.advantage.dtype == torch.float32
    same = single.groups.reason == double.groups.reason
    at = torch.repeat_interleave(same, torch.tensor([len(row[0].passed) for row in rows]))
    assert torch.allclose(
        single.rollouts.advantage.double()[at], double.rollouts.advantage[at], atol=2e-5, rtol=1e-4
    )


def test_late_length_penalty_touches_no_grs_group() -> None:
    """`post_gar` is the other order of METHOD 5.4, for plain and GAR; GRS stays multiplicative."""
    graded = Rows([1, 1, 1], solution=[0.9, 0.5, 0.7], behavior=[1, 1, 1], length=[10, 90, 20])
    early, late = (
        advantages(graded, "grs", length=REFERENCE, length_position=position)
        for position in ("reward", "post_gar")
    )
    assert early == late
    plain = Rows([1, 1, 1, 0], length=[10, 90, 20, 1])
    assert advantages(plain, length=REFERENCE, length_position="post_gar") == pytest.approx(
        advantages(plain, length=REFERENCE)
    )


def test_every_setting_can_differ_by_group() -> None:
    group = Rows([1, 1, 1, 0, 0], quality=[1, 0.6, 0.3, 1, 1], length=[1, 1, 9, 1, 1])
    batch = batch_of(group, group, group)
    column = torch.tensor([1.5, inf, 1.5], dtype=torch.float64)
    penalty = LengthPenalty(torch.tensor([0.0, 0.0, 0.2], dtype=torch.float64), *OFF[1:])
    flags = torch.tensor([False, False, True])
    settings = Settings(methods_tensor(["gar"] * 3), column, flags, ~flags, 0.0, penalty)
    result = ordered_advantages(
        batch,
        settings,
        aggregation="token-mean",
        token_penalty=TokenPenalty(2.0, 2.0, 0.5, False),
        spread_epsilon=1e-9,
        length_position="reward",
        total=lambda local: local,
    ).rollouts.advantage.tolist()
    assert result[:5] == pytest.approx(advantages(group, "gar", cap=1.5))
    assert result[5:10] == pytest.approx(advantages(group, "gar"))
    assert result[10:] == pytest.approx(
        advantages(group, "gar", cap=1.5, keep=True, recentre=False, length=REFERENCE)
    )


def test_empty_batch() -> None:
    result = outcome(Rows([]), token_penalty=FORK)
    assert result.rollouts.advantage.shape == (0,)
    assert result.groups.accepted.tolist() == [False]
