"""Entropy steering: the direction METHOD 2 states, and the limits."""

from __future__ import annotations

import pytest

from mimo.algo.loss import MaskBounds
from mimo.algo.steering import steered_bounds

START = MaskBounds(0.2, 5.0, 0.2, 5.0)
WIDEST = MaskBounds(0.1, 10.0, 0.1, 10.0)


def steer(bounds: MaskBounds, entropy: float) -> MaskBounds:
    return steered_bounds(bounds, entropy=entropy, low=0.3, high=0.6, step=0.1, widest=WIDEST)


def test_inside_the_band_nothing_moves() -> None:
    assert steer(START, 0.3) == steer(START, 0.6) == START


def test_too_low_widens_positive_and_narrows_negative_and_back() -> None:
    lower = steer(START, 0.1)
    assert lower == pytest.approx((0.2 / 1.1, 5.5, 0.22, 5 / 1.1))
    assert steer(START, 0.9) == pytest.approx((0.22, 5 / 1.1, 0.2 / 1.1, 5.5))
    assert steer(lower, 0.9) == pytest.approx(START)


def test_never_past_one_nor_past_the_widest() -> None:
    bounds = START
    for _ in range(200):
        bounds = steer(bounds, 0.1)
    assert bounds == pytest.approx((0.1, 10.0, 1.0, 1.0))
