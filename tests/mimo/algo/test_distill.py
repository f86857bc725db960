"""MOPD: sampled-token, hybrid and full-vocabulary gradients are the reverse KL's; teacher = student is 0."""

from __future__ import annotations

from math import inf

import pytest
import torch
from torch import Tensor

from mimo.algo.distill import full_vocabulary_loss, hybrid_loss, mopd_advantages
from mimo.algo.kl import kl_divergence
from mimo.algo.loss import MaskBounds, masked_importance_loss

VOCAB = 6
WIDE = MaskBounds(0.0, inf, 0.0, inf)
ONES = torch.ones(VOCAB, dtype=torch.float64)


def setting() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(7)
    logits, teacher = torch.randn(2, VOCAB, generator=generator, dtype=torch.float64)
    return logits.requires_grad_(), teacher.log_softmax(0)


def exact() -> Tensor:
    logits, teacher = setting()
    return torch.autograd.grad(kl_divergence(logits.log_softmax(0), teacher), logits)[0]


def test_sampled_token_with_the_recipes_loss_is_the_reverse_kl_gradient() -> None:
    """Exact expectation: every token once, weighted by its probability."""
    logits, teacher = setting()
    logprobs = logits.log_softmax(0)
    advantages = mopd_advantages(logprobs, teacher, 0 * ONES, alpha=0.0, clip=inf)
    weights = logprobs.detach().exp()
    loss, _ = masked_importance_loss(
        logprobs, logprobs.detach(), advantages, weights, ONES.bool(), bounds=WIDE
    )
    assert torch.allclose(torch.autograd.grad(loss, logits)[0], exact(), atol=1e-14)


def hybrid(candidates: list[int], sampler: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """(mean gradient, its variance summed over logits) over the sampled token."""
    mean, square = torch.zeros(VOCAB, dtype=torch.float64), torch.zeros(VOCAB, dtype=torch.float64)
    for token in range(VOCAB):
        logits, teacher = setting()
        logprobs = logits.log_softmax(0)
        mu = logprobs.detach() if sampler is None else sampler
        loss = hybrid_loss(
            logprobs[candidates][None],
            teacher[candidates][None],
            logprobs[token][None],
            teacher[token][None],
            torch.tensor([token in candidates]),
            ratio=(logprobs.detach() - mu)[token][None].exp(),
            weights=torch.ones(1, dtype=torch.float64),
        )
        grad = torch.autograd.grad(loss, logits)[0]
        mean, square = mean + mu[token].exp() * grad, square + mu[token].exp() * grad**2
    return mean, (square - mean**2).sum()


@pytest.mark.parametrize("size", [0, 1, 3, VOCAB])
def test_hybrid_is_unbiased_for_every_candidate_set(size: int) -> None:
    """METHOD 10.3: needs the teacher on S and on the sampled token only."""
    best = setting()[1].topk(size).indices.tolist()
    assert torch.allclose(hybrid(best)[0], exact(), atol=1e-14)


def test_hybrid_has_less_variance_than_the_sampled_token() -> None:
    """METHOD 10.3: .652 against .839 on its toy."""
    variances = [hybrid(setting()[1].topk(size).indices.tolist())[1].item() for size in (0, 3, VOCAB)]
    assert variances[2] == pytest.approx(0, abs=1e-14)
    assert variances[1] < variances[0]


def test_hybrid_with_a_stale_sampler() -> None:
    """METHOD 10.3: multiply only the second term by w_t."""
    sampler = torch.randn(VOCAB, generator=torch.Generator().manual_seed(9), dtype=torch.float64).log_softmax(
        0
    )
    best = setting()[1].topk(2).indices.tolist()
    assert torch.allclose(hybrid(best, sampler)[0], exact(), atol=1e-14)


def test_truncated_top_k_without_a_sampled_part_is_biased() -> None:
    logits, teacher = setting()
    best = teacher.topk(3).indices
    logprobs = logits.log_softmax(0)
    cut = (logprobs[best].exp() * (logprobs[best] - teacher[best])).sum()
    assert (torch.autograd.grad(cut, logits)[0] - exact()).abs().max() > 0.01


def test_full_vocabulary_is_exact() -> None:
    logits, teacher = setting()
    loss = full_vocabulary_loss(
        logits.log_softmax(0)[None], teacher[None], torch.ones(1, dtype=torch.float64)
    )
    assert loss.item() == pytest.approx(kl_divergence(logits.log_softmax(0), teacher).item())
    assert torch.allclose(torch.autograd.grad(loss, logits)[0], exact(), atol=1e-15)


def test_teacher_equal_to_student_gives_zero() -> None:
    logits, _ = setting()
    logprobs = logits.log_softmax(0)
    same = logprobs.detach()
    assert not mopd_advantages(logprobs, same, 0 * ONES, alpha=1.0, clip=5.0).any()
    full = full_vocabulary_loss(logprobs[None], same[None], torch.ones(1, dtype=torch.float64))
    assert torch.autograd.grad(full, logits)[0].abs().max() < 1e-15


def test_clip_and_outcome() -> None:
    """METHOD 10.2: A_t = clip(g_t, -5, 5) + alpha A_ORM; the outcome is not clipped."""
    policy = torch.tensor([-9.0, -1.0, -1.0], dtype=torch.float64, requires_grad=True)
    teacher = torch.tensor([-1.0, -9.0, -2.0], dtype=torch.float64)
    outcome = torch.tensor([4.0, 0.0, 1.0], dtype=torch.float64)
    found = mopd_advantages(policy, teacher, outcome, alpha=0.5, clip=5.0)
    assert found.tolist() == [7.0, -5.0, -0.5]
    assert not found.requires_grad


def test_gradcheck_of_the_full_vocabulary_loss() -> None:
    logits, teacher = setting()
    weights = torch.tensor([0.7], dtype=torch.float64)
    assert torch.autograd.gradcheck(
        lambda values: full_vocabulary_loss(values.log_softmax(0)[None], teacher[None], weights), (logits,)
    )
