"""FLOPs of a stage's work: forward passes of the sampler, training, scoring; and bytes of weights.

A forward pass of one token costs 2 FLOPs a parameter it uses, plus the attention's scores and values over
half of its context on average. The head counts where logits are made: at every sampled token, at every
token with a loss, at every scored one. Backward costs twice the forward; with `recompute` the body is
computed once more.
"""

from __future__ import annotations

from dataclasses import dataclass

from mimo.pipeline.estimate.policy_facts import PolicyFacts
from mimo.pipeline.estimate.work import RolloutSize, Work
from mimo.recipe.models import Recipe


@dataclass(frozen=True, kw_only=True, slots=True)
class Flops:
    """FLOPs of one stage."""

    prefill: float
    decode: float
    train: float
    score: float


def flops_of(
    work: Work, facts: PolicyFacts, size: RolloutSize, *, reread: float = 0.0, recompute: bool = False
) -> Flops:
    """The FLOPs of `work`; `reread` prompt tokens are read again by the sampler (cache misses)."""
    body = 2.0 * facts.active_body + facts.attention_flops(size.tokens / 2)
    head = 2.0 * facts.vocabulary * facts.hidden
    sampled = work.generated + work.untrained_generated
    return Flops(
        prefill=(work.prefilled + reread) * body,
        decode=sampled * (body + head),
        train=(4.0 if recompute else 3.0) * work.computed * body + 3.0 * work.trained * head,
        score=work.scored * (body + head),
    )


def train_flops(work: Work, facts: PolicyFacts, size: RolloutSize, recipe: Recipe) -> float:
    """The FLOPs of training on `work` as the recipe's trainer does it."""
    return flops_of(work, facts, size, recompute=recipe.runtime.trainer.recompute).train


def weight_bytes(facts: PolicyFacts, dtype: str) -> float:
    """Bytes of a served copy of the weights (the head always written)."""
    return facts.exported * (2.0 if dtype == "bfloat16" else 4.0)
