"""Memory per GPU (or of the process on a CPU): weights, gradients, optimiser, activations, KV cache.

Trainer, N parameters, P processes, in bytes a parameter (docs/training.md, Precision and ZeRO):

    stage   weights              gradients   masters   AdamW     Muon
    0       4 (+2 while cast)    4           -         8         4 on hidden matrices, 8 elsewhere
    1       2 or 4               4           4/P       8/P       refused
    2       2 or 4               4/P         4/P       8/P       refused
    3       (2 or 4)/P           4/P         4/P       8/P       refused

(float32 needs no masters.) Activations: one row at a time, all of it kept for the backward pass:

    tokens of the row x layers x 2 bytes x (6 hidden + 2 query + 2 kv + 4 feed-forward width)

(4 bytes in float32). With `recompute` every layer keeps its input (hidden), and one layer all of it.

A rollout longer than `micro_batch_tokens` is a row of its own, so the longest one decides.
"""

from __future__ import annotations

from dataclasses import dataclass

from mimo.pipeline.estimate import assumptions as known
from mimo.pipeline.estimate.assumptions import Assumed
from mimo.pipeline.estimate.flops import weight_bytes
from mimo.pipeline.estimate.hardware import Hardware
from mimo.pipeline.estimate.policy_facts import PolicyFacts
from mimo.recipe.models import Recipe
from mimo.types import Json

GIB = 2.0**30


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainerMemory:
    """GiB of one training process."""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    overhead: float
    row_tokens: int
    """Longest row: the micro-batch, or the longest rollout if that is longer."""

    @property
    def total(self) -> float:
        """All of it."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.overhead

    def as_json(self) -> dict[str, Json]:
        """GiB by part."""
        return {
            "weights": self.weights,
            "gradients": self.gradients,
            "optimizer": self.optimizer,
            "activations": self.activations,
            "overhead": self.overhead,
            "total": self.total,
            "row_tokens": self.row_tokens,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class SamplerMemory:
    """GiB of one GPU of a server (on a CPU: of the server); `sequences` full contexts fit into its cache."""

    weights: float
    kv_cache: float
    overhead: float
    sequences: float
    """Dialogues of `policy.context_tokens` that one copy of the weights can hold at a time."""
    kv_bytes_a_token: float
    """Of the whole policy, at full context."""

    @property
    def total(self) -> float:
        """All of it."""
        return self.weights + max(0.0, self.kv_cache) + self.overhead

    def as_json(self) -> dict[str, Json]:
        """GiB by part."""
        return {
            "weights": self.weights,
            "kv_cache": self.kv_cache,
            "overhead": self.overhead,
            "total": self.total,
            "full_contexts": self.sequences,
            "kv_bytes_a_token": self.kv_bytes_a_token,
        }


def trainer_memory(
    recipe: Recipe, facts: PolicyFacts, hardware: Hardware, assumed: Assumed, *, optimizer: str
) -> TrainerMemory:
    """What one process of the trainer needs, with the recipe's ZeRO stage."""
    trainer = recipe.runtime.trainer
    ranks = hardware.trainer_gpus if hardware.card else trainer.num_processes
    zero, half = trainer.zero_stage, recipe.policy.dtype == "bfloat16"
    split = [1.0 / ranks if zero >= stage else 1.0 for stage in (1, 2, 3)]
    number = facts.parameters / GIB
    weights = number * (6.0 if half and zero == 0 else 2.0 if half else 4.0) * split[2]
    masters = number * 4.0 * split[0] if half and zero > 0 else 0.0
    row = max(trainer.micro_batch_tokens, recipe.policy.context_tokens)
    overhead = known.TRAINER_OVERHEAD_GIB if hardware.card else known.TRAINER_HOST_GIB
    return TrainerMemory(
        weights=weights,
        gradients=number * 4.0 * split[1],
        optimizer=masters + _optimizer(facts, optimizer) * split[0],
        activations=row * activation_bytes(facts, recipe) / GIB,
        overhead=assumed(overhead),
        row_tokens=row,
    )


def activation_bytes(facts: PolicyFacts, recipe: Recipe) -> float:
    """Bytes that one token of a row keeps for the backward pass, over all layers."""
    width = 6 * facts.hidden + 2 * facts.query + 2 * facts.kv + 4 * facts.feed_forward
    kept = facts.layers * width
    if recipe.runtime.trainer.recompute:
        kept = facts.layers * facts.hidden + width
    return kept * (2.0 if recipe.policy.dtype == "bfloat16" else 4.0)


def sampler_memory(recipe: Recipe, facts: PolicyFacts, hardware: Hardware, assumed: Assumed) -> SamplerMemory:
    """What one GPU of a server holds; the cache is what the weights leave of its share of the memory."""
    sampler = recipe.runtime.sampler
    number = 2.0 if recipe.policy.dtype == "bfloat16" else 4.0
    context = recipe.policy.context_tokens
    sequence = facts.kv_tokens(context) * number / GIB
    if hardware.card is None:
        weights = weight_bytes(facts, recipe.policy.dtype) / GIB
        cache, overhead, share = sampler.kv_cache_gib, assumed(known.SAMPLER_HOST_GIB), 1
    else:
        share = sampler.tensor_parallel
        weights = weight_bytes(facts, recipe.policy.dtype) / GIB / share
        overhead = assumed(known.SAMPLER_OVERHEAD_GIB)
        cache = hardware.card.memory_gib * sampler.gpu_memory_utilization - weights - overhead
    return SamplerMemory(
        weights=weights,
        kv_cache=cache,
        overhead=overhead,
        sequences=max(0.0, cache * share / sequence),
        kv_bytes_a_token=facts.kv_tokens(context) * number / context,
    )


def host_gib(facts: PolicyFacts, ranks: int) -> float:
    """GiB of main memory while the trainer starts: every process reads the whole policy in float32."""
    return 4.0 * facts.parameters * ranks / GIB


def _optimizer(facts: PolicyFacts, name: str) -> float:
    """GiB of AdamW's two moments, or of Muon's one on hidden matrices, in float32."""
    hidden = facts.body if name == "muon" else 0
    return (8.0 * facts.parameters - 4.0 * hidden) / GIB
