"""The mixer: Eq. 6 reaches its mean within the clips, Eq. 7 by hand."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mimo.algo.mixer import over_provisioning, submission_weights


def tensor(values: list[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_equal_domains_all_get_the_mean() -> None:
    extra = over_provisioning(tensor([0.5, 0.5]), tensor([0.5, 0.5]), tensor([2, 2]), low=0, high=1, mean=0.3)
    assert extra.tolist() == pytest.approx([0.3, 0.3])


def test_slow_domains_get_more() -> None:
    """Without clips c t - 1 averages to p: c = (p + 1) sum m / sum m t = 1.5 / 2; m is equal here."""
    shares, rates, times = tensor([0.5, 0.25]), tensor([0.5, 0.25]), tensor([1.5, 2.5])
    extra = over_provisioning(shares, rates, times, low=0, high=1, mean=0.5)
    assert extra.tolist() == pytest.approx([0.125, 0.875])


ROWS = st.lists(
    st.tuples(st.floats(0.05, 1), st.floats(0.05, 1), st.floats(0.1, 100)), min_size=1, max_size=6
)


@given(ROWS, st.floats(0, 1))
def test_the_weighted_mean_is_reached(rows: list[tuple[float, float, float]], mean: float) -> None:
    shares, rates, times = (tensor([row[at] for row in rows]) for at in range(3))
    extra = over_provisioning(shares, rates, times, low=0.0, high=1.0, mean=mean)
    wanted = shares / rates
    assert ((wanted * extra).sum() / wanted.sum()).item() == pytest.approx(mean, abs=1e-9)
    assert ((extra >= 0) & (extra <= 1)).all()
    assert torch.equal(extra[times.argsort()].sort().values, extra[times.argsort()])


def test_a_mean_outside_the_clips_is_refused() -> None:
    with pytest.raises(ValueError, match=r"is 2; expected 0 to 1"):
        over_provisioning(tensor([1]), tensor([1]), tensor([1]), low=0, high=1, mean=2)


def test_submission_weights() -> None:
    """METHOD 9, Eq. 7 with alpha .5; accept rate .25 is oversampled four times; a full domain keeps half."""
    found = submission_weights(tensor([8, 4, 4]), tensor([0, 0, 6]), tensor([1, 0.25, 1]), alpha=0.5)
    assert found.tolist() == pytest.approx([8, 16, 2])
