"""Entropy steering of the mask: too little widens the positive interval and narrows the negative one.

Wider on one side: low / (1 + step), high * (1 + step); narrower: the reverse, never past 1. Too much entropy
does the opposite. Source: MiMo-V2.6 report 5.1 states the direction; the multiplicative step is a choice
(METHOD 2).
"""

from __future__ import annotations

from mimo.algo.loss import MaskBounds


def steered_bounds(
    bounds: MaskBounds, *, entropy: float, low: float, high: float, step: float, widest: MaskBounds
) -> MaskBounds:
    """The bounds of the next step; unchanged while low <= entropy <= high.

    Args:
        bounds: those of this step; each interval holds 1.
        entropy: the policy's mean token entropy, nats; `low` and `high` the band it should stay in.
        step: > 0, relative change per training step.
        widest: the bounds that widening never passes.
    """
    if low <= entropy <= high:
        return bounds
    up = 1 + step if entropy < low else 1 / (1 + step)
    return MaskBounds(
        positive_low=min(max(bounds.positive_low / up, widest.positive_low), 1.0),
        positive_high=max(min(bounds.positive_high * up, widest.positive_high), 1.0),
        negative_low=min(max(bounds.negative_low * up, widest.negative_low), 1.0),
        negative_high=max(min(bounds.negative_high / up, widest.negative_high), 1.0),
    )
