"""DAPO, GSPO, CISPO and TIS against their formulas, and how they differ from the recipe's loss."""

from __future__ import annotations

from math import exp, log, nan

import pytest
import torch

from mimo.algo.loss import MaskBounds, masked_importance_loss
from mimo.algo.other_losses import cispo_loss, dapo_loss, gspo_loss, tis_loss

RATIOS = [0.5, 0.9, 1.2, 1.5, 6.0]
POLICY = torch.tensor([log(r) for r in RATIOS], dtype=torch.float64)
SAMPLER = torch.zeros(5, dtype=torch.float64)
UP = torch.ones(5, dtype=torch.float64)
MASK = torch.ones(5, dtype=torch.bool)


def test_dapo_clips_higher_on_one_side_only() -> None:
    """METHOD 11: clip-higher [1 - .2, 1 + .28]."""
    up = dapo_loss(POLICY, SAMPLER, UP, UP, MASK, low=0.2, high=0.28)
    assert up.item() == pytest.approx(-(0.5 + 0.9 + 1.2 + 1.28 + 1.28))
    down = dapo_loss(POLICY, SAMPLER, -UP, UP, MASK, low=0.2, high=0.28)
    assert down.item() == pytest.approx(0.8 + 0.9 + 1.2 + 1.5 + 6.0)


def test_cispo_keeps_a_gradient_where_the_recipe_masks() -> None:
    policy = POLICY.clone().requires_grad_()
    cispo = torch.autograd.grad(cispo_loss(policy, SAMPLER, UP, UP, MASK, low=0.0, high=5.0), policy)[0]
    bounds = MaskBounds(0.2, 5.0, 0.2, 5.0)
    ours = torch.autograd.grad(
        masked_importance_loss(policy, SAMPLER, UP, UP, MASK, bounds=bounds)[0], policy
    )[0]
    assert cispo.tolist() == pytest.approx([-0.5, -0.9, -1.2, -1.5, -5.0])
    assert ours.tolist() == pytest.approx([-0.5, -0.9, -1.2, -1.5, 0.0])


def test_tis_truncates_at_its_cap() -> None:
    policy = POLICY.clone().requires_grad_()
    grad = torch.autograd.grad(tis_loss(policy, SAMPLER, UP, UP, MASK, cap=2.0), policy)[0]
    assert grad.tolist() == pytest.approx([-0.5, -0.9, -1.2, -1.5, -2.0])


def test_gspo_takes_one_ratio_per_rollout() -> None:
    rollout = torch.tensor([0, 0, 1, 1, 1])
    mask = torch.tensor([True, True, True, True, False])
    advantages, weights = torch.tensor([1.0, -1.0, 1.0]).double(), torch.full((3,), 1 / 3).double()
    loss = gspo_loss(POLICY, SAMPLER, advantages, weights, mask, rollout=rollout, low=3e-4, high=4e-4)
    first = exp((log(0.5) + log(0.9)) / 2)
    second = exp((log(1.2) + log(1.5)) / 2)
    assert loss.item() == pytest.approx((-first + second) / 3)


@pytest.mark.parametrize("name", ["dapo", "cispo", "tis"])
def test_tokens_outside_the_mask_are_never_read(name: str) -> None:
    policy = torch.tensor([-1.0, nan], dtype=torch.float64, requires_grad=True)
    other = torch.tensor([-1.0, nan], dtype=torch.float64)
    mask = torch.tensor([True, False])
    values = torch.tensor([1.0, nan], dtype=torch.float64)
    call = {
        "dapo": lambda: dapo_loss(policy, other, values, values, mask, low=0.2, high=0.2),
        "cispo": lambda: cispo_loss(policy, other, values, values, mask, low=0.0, high=5.0),
        "tis": lambda: tis_loss(policy, other, values, values, mask, cap=2.0),
    }[name]
    assert torch.autograd.grad(call(), policy)[0].tolist() == pytest.approx([-1.0, 0.0])


def test_gradcheck_away_from_the_clips() -> None:
    """Numerical against analytic gradient, float64; CISPO and TIS stop theirs, so the clipped forms only."""
    policy = torch.tensor(
        [log(r) for r in (0.9, 1.1, 1.05, 0.7, 1.6)], dtype=torch.float64, requires_grad=True
    )
    signs = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0], dtype=torch.float64)
    rollout = torch.tensor([0, 0, 1, 1, 2])
    per_rollout = torch.tensor([1.0, -0.5, 0.3], dtype=torch.float64)
    assert torch.autograd.gradcheck(
        lambda values: dapo_loss(values, SAMPLER, signs, UP, MASK, low=0.2, high=0.28), (policy,)
    )
    assert torch.autograd.gradcheck(
        lambda values: gspo_loss(
            values, SAMPLER, per_rollout, UP[:3], MASK, rollout=rollout, low=0.9, high=2.0
        ),
        (policy,),
    )
