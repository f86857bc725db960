"""The masked importance-sampling loss: exact gradients, bounds by sign, counts, what is never read."""

from __future__ import annotations

from math import exp, inf, log, nan

import pytest
import torch
from torch import Tensor

from mimo.algo.loss import MaskBounds, masked_importance_loss

START = MaskBounds(0.2, 5.0, 0.2, 5.0)  # METHOD 2: both intervals start at [0.2, 5.0]
WIDE = MaskBounds(0.0, inf, 0.0, inf)


def tensor(values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def loss_of(policy: Tensor, sampler: Tensor, advantages: list[float], bounds: MaskBounds = START) -> Tensor:
    size = len(advantages)
    mask = torch.ones(size, dtype=torch.bool)
    weights = torch.full((size,), 1 / size, dtype=torch.float64)
    return masked_importance_loss(policy, sampler, tensor(advantages), weights, mask, bounds=bounds)[0]


def test_gradient_is_the_analytic_policy_gradient_of_a_tabular_softmax() -> None:
    """On-policy expectation over every action: d/dlogits sum_a p(a) A(a) = p (A - sum p A)."""
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(6, generator=generator, dtype=torch.float64, requires_grad=True)
    values = torch.randn(6, generator=generator, dtype=torch.float64)
    logprobs = logits.log_softmax(0)
    probability = logprobs.detach().exp()
    mask = torch.ones(6, dtype=torch.bool)
    loss, _ = masked_importance_loss(logprobs, logprobs.detach(), values, probability, mask, bounds=START)
    loss.backward()
    expected = -probability * (values - (probability * values).sum())
    assert torch.allclose(logits.grad, expected, atol=1e-14)  # type: ignore[arg-type]


def test_gradient_is_exact_off_policy_too() -> None:
    """Expectation under mu of r A grad log pi is the gradient under pi, as no token is masked."""
    generator = torch.Generator().manual_seed(2)
    logits = torch.randn(6, generator=generator, dtype=torch.float64, requires_grad=True)
    sampler = torch.randn(6, generator=generator, dtype=torch.float64).log_softmax(0)
    values = torch.randn(6, generator=generator, dtype=torch.float64)
    mask = torch.ones(6, dtype=torch.bool)
    loss, counts = masked_importance_loss(
        logits.log_softmax(0), sampler, values, sampler.exp(), mask, bounds=WIDE
    )
    loss.backward()
    p = logits.detach().softmax(0)
    assert torch.allclose(logits.grad, -p * (values - (p * values).sum()), atol=1e-14)  # type: ignore[arg-type]
    assert counts.kept.item() == 6


def test_gradcheck_against_the_ratio() -> None:
    """Gradient of r log pi with r stopped is the gradient of r: compare with autograd through the ratio."""
    sampler = tensor([-1.0, -2.0, -0.5])
    policy = tensor([-1.1, -1.7, -0.9]).requires_grad_()
    ours = torch.autograd.grad(loss_of(policy, sampler, [0.5, -1.0, 2.0], WIDE), policy)[0]

    def surrogate(logprobs: Tensor) -> Tensor:
        return -((logprobs - sampler).exp() * tensor([0.5, -1.0, 2.0])).sum() / 3

    assert torch.autograd.gradcheck(surrogate, (policy,))
    through = torch.autograd.grad(surrogate(policy), policy)[0]
    assert torch.allclose(ours, through, atol=1e-15)


def test_gradcheck_of_the_loss_with_frozen_ratios() -> None:
    """With the factor stopped the loss is linear in the kept log-probabilities."""
    policy = tensor([-1.0, -0.3, -5.0]).requires_grad_()
    sampler = tensor([-1.2, -0.4, -1.0])
    grad = torch.autograd.grad(loss_of(policy, sampler, [1.0, -1.0, 1.0]), policy)[0]
    expected = [-exp(0.2) / 3, exp(0.1) / 3, 0.0]  # the third ratio, exp(-4), is below 0.2
    assert grad.tolist() == pytest.approx(expected)


@pytest.mark.parametrize("advantage", [1.0, -1.0])
@pytest.mark.parametrize(
    ("ratio", "kept"), [(0.19, False), (0.2, True), (1.0, True), (5.0, True), (5.1, False)]
)
def test_bounds_are_inclusive(advantage: float, ratio: float, kept: bool) -> None:
    # log then exp of 0.2 or 5.0 may miss it by one unit in the last place
    bounds = MaskBounds(0.2 * (1 - 1e-15), 5 * (1 + 1e-15), 0.2 * (1 - 1e-15), 5 * (1 + 1e-15))
    policy = tensor([log(ratio)]).requires_grad_()
    grad = torch.autograd.grad(loss_of(policy, tensor([0.0]), [advantage], bounds), policy)[0]
    assert grad.item() == pytest.approx(-ratio * advantage if kept else 0.0)


def test_interval_by_sign_and_counts_by_side() -> None:
    bounds = MaskBounds(0.5, 2.0, 0.8, 1.25)
    policy = tensor([log(r) for r in (0.4, 0.6, 2.5, 0.6, 0.9, 1.5, 1.0, 1.0)])
    advantages = tensor([1, 1, 1, -1, -1, -1, 0, 1])
    mask = torch.tensor([True] * 7 + [False])
    weights = torch.ones(8, dtype=torch.float64)
    loss, counts = masked_importance_loss(
        policy, torch.zeros(8, dtype=torch.float64), advantages, weights, mask, bounds=bounds
    )
    assert [count.item() for count in counts] == [3, 3, 2, 1, 1, 1, 1, 0]
    assert loss.item() == pytest.approx(-(0.6 * log(0.6)) + 0.9 * log(0.9))


def test_tokens_outside_the_mask_are_never_read() -> None:
    policy = tensor([-1.0, nan, -inf]).requires_grad_()
    mask = torch.tensor([True, False, False])
    loss, counts = masked_importance_loss(
        policy, tensor([-1.0, nan, 0.0]), tensor([2.0, nan, inf]), tensor([1.0, nan, 1.0]), mask, bounds=START
    )
    assert loss.item() == pytest.approx(2.0)
    assert torch.autograd.grad(loss, policy)[0].tolist() == [-2.0, 0.0, 0.0]
    assert counts.nonfinite.item() == 0


def test_trained_tokens_without_a_usable_ratio_are_left_out_and_counted() -> None:
    policy = tensor([nan, -inf, 0.0, -1.0]).requires_grad_()
    sampler = tensor([-1.0, -1.0, -inf, -1.0])
    mask = torch.ones(4, dtype=torch.bool)
    loss, counts = masked_importance_loss(
        policy, sampler, tensor([1.0] * 4), tensor([1.0] * 4), mask, bounds=START
    )
    assert loss.item() == pytest.approx(1.0)
    assert torch.autograd.grad(loss, policy)[0].tolist() == [0.0, 0.0, 0.0, -1.0]
    assert (counts.nonfinite.item(), counts.positive_low.item(), counts.positive_high.item()) == (1, 1, 1)


def test_micro_batches_add_up_to_the_batch() -> None:
    generator = torch.Generator().manual_seed(3)
    policy, sampler, advantages, weights = torch.randn(4, 40, generator=generator, dtype=torch.float64)
    mask = torch.rand(40, generator=generator) > 0.3
    whole = masked_importance_loss(policy, sampler, advantages, weights, mask, bounds=START)
    parts = [
        masked_importance_loss(
            *(part[at : at + 7] for part in (policy, sampler, advantages, weights, mask)), bounds=START
        )
        for at in range(0, 40, 7)
    ]
    assert sum(part[0].item() for part in parts) == pytest.approx(whole[0].item())
    for name in whole[1]._fields:
        assert sum(getattr(part[1], name).item() for part in parts) == getattr(whole[1], name).item()


def test_no_gradient_reaches_advantages_weights_or_sampler() -> None:
    inputs = [torch.full((3,), 0.5, dtype=torch.float64, requires_grad=True) for _ in range(4)]
    loss, _ = masked_importance_loss(*inputs, torch.ones(3).bool(), bounds=START)
    loss.backward()
    assert inputs[0].grad is not None
    assert all(one.grad is None for one in inputs[1:])


def test_float32_stays_float32() -> None:
    policy = torch.zeros(2)
    loss, _ = masked_importance_loss(policy, policy, policy + 1, policy + 1, policy == 0, bounds=START)
    assert loss.dtype == torch.float32
