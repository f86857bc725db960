"""Candidate-set replay: renormalised log-probabilities, top-p sets, sets that contradict their token."""

from __future__ import annotations

from math import inf, log

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mimo.algo.candidates import renormalized_logprobs, top_p_candidates

LOGITS = torch.tensor([[0.5, 0.3, 0.15, 0.05]] * 3, dtype=torch.float64).log()


def test_renormalises_inside_the_set() -> None:
    candidates = torch.tensor([[0, 1, -1, -1], [2, 0, 1, -1], [0, 1, 2, 3]])
    found = renormalized_logprobs(LOGITS, torch.tensor([1, 2, 3]), candidates)
    assert found.tolist() == pytest.approx([log(0.3 / 0.8), log(0.15 / 0.95), log(0.05)])


def test_a_token_outside_its_set_is_impossible_and_gives_no_gradient() -> None:
    logits = LOGITS[:2].clone().requires_grad_()
    candidates = torch.tensor([[0, 1], [-1, -1]])
    found = renormalized_logprobs(logits, torch.tensor([3, 0]), candidates)
    assert found.tolist() == [-inf, -inf]
    grad = torch.autograd.grad(torch.where(found.isfinite(), found, 0).sum(), logits)[0]
    assert not grad.any()


def test_gradient_is_that_of_a_softmax_over_the_set() -> None:
    logits = LOGITS[:1].clone().requires_grad_()
    found = renormalized_logprobs(logits, torch.tensor([1]), torch.tensor([[0, 1, -1]]))
    grad = torch.autograd.grad(found.sum(), logits)[0][0]
    assert grad.tolist() == pytest.approx([-0.5 / 0.8, 1 - 0.3 / 0.8, 0, 0])
    assert torch.autograd.gradcheck(
        lambda values: renormalized_logprobs(values, torch.tensor([1]), torch.tensor([[0, 1, -1]])), (logits,)
    )


@pytest.mark.parametrize(("top_p", "size"), [(0.0001, 1), (0.4, 1), (0.6, 2), (0.9, 3), (0.97, 4), (1.0, 4)])
def test_smallest_set_that_reaches_top_p(top_p: float, size: int) -> None:
    assert top_p_candidates(LOGITS[:1], top_p=top_p)[0].tolist() == [True] * size + [False] * (4 - size)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=12), st.floats(0.01, 0.99))
def test_top_p_sets_reach_and_do_not_overshoot(values: list[float], top_p: float) -> None:
    probabilities = torch.tensor([values], dtype=torch.float64).softmax(-1)
    chosen = top_p_candidates(torch.tensor([values], dtype=torch.float64), top_p=top_p)
    mass = probabilities[chosen].sum().item()
    assert mass >= top_p - 1e-12
    assert mass - probabilities[chosen].min().item() < top_p + 1e-12
