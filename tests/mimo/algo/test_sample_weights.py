"""Weights of distillation samples by type and domain: METHOD 10.2's sum, written out."""

from __future__ import annotations

import pytest
import torch

from mimo.algo.sample_weights import prefix_probabilities, sample_weights

ZETA = torch.tensor(
    [0.5, 0.25, 0.25], dtype=torch.float64
)  # METHOD 10.2: student, teacher prefix, SFT prefix
RHO = torch.tensor([0.6, 0.4], dtype=torch.float64)


def test_loss_is_the_weighted_sum_of_cell_means() -> None:
    kind, domain = torch.tensor([0, 0, 1, 2, 2]), torch.tensor([0, 0, 0, 1, 1])
    tokens = torch.tensor([10, 5, 4, 2, 0])
    weights = sample_weights(kind, domain, tokens, kind_weights=ZETA, domain_weights=RHO)
    expected = [0.5 * 0.6 / 2 / 10, 0.5 * 0.6 / 2 / 5, 0.25 * 0.6 / 4, 0.25 * 0.4 / 2, 0.0]
    assert weights.tolist() == pytest.approx(expected)
    cells = 0.5 * 0.6 + 0.25 * 0.6 + 0.25 * 0.4
    assert (weights * tokens).sum().item() == pytest.approx(cells)


def test_prefix_positions_favour_early_turns() -> None:
    """METHOD 10.2: p_t ~ .6^t (ReOPD); 1 is uniform."""
    early = prefix_probabilities(3, decay=0.6, dtype=torch.float64)
    assert early.tolist() == pytest.approx([1 / 1.96, 0.6 / 1.96, 0.36 / 1.96])
    assert prefix_probabilities(4, decay=1.0, dtype=torch.float64).tolist() == [0.25] * 4
