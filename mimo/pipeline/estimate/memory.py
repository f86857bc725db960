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

Attention masks (mimo/training/attention.py): [queries, keys] of a segment that hangs on a prompt or looks
through a sliding window, in every such layer that keeps its activations; small ones once for all layers.

A rollout longer than `micro_batch_tokens` is a row of its own, so the longest one decides.
"""

from __future__ import annotations

from dataclasses import dataclass

from mimo.pipeline.estimate import assumptions as known
from mimo.pipeline.estimate.assumptions import Assumed
from mimo.pipeline.estimate.flops import weight_bytes
from mimo.pipeline.estimate.hardware import Hardware
from mimo.pipeline.estimate.policy_facts import PolicyFacts
from mimo.pipeline.estimate.work import RolloutSize
from mimo.recipe.models import Recipe
from mimo.types import Json

GIB = 2.0**30
FOLDED_MASK = 2**21
"""`mimo.training.attention.FOLDED_MASK`, without loading torch for it (a test compares)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainerMemory:
    """GiB of one training process."""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    masks: float
    overhead: float
    row_tokens: int
    """Longest row: the micro-batch, or the longest rollout if that is longer."""

    @property
    def kept(self) -> float:
        """What it keeps between two steps."""
        return self.weights + self.gradients + self.optimizer + self.overhead

    @property
    def total(self) -> float:
        """All of it."""
        return self.kept + self.activations + self.masks

    def as_json(self) -> dict[str, Json]:
        """GiB by part."""
        return {
            "weights": self.weights,
            "gradients": self.gradients,
            "optimizer": self.optimizer,
            "activations": self.activations,
            "masks": self.masks,
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
    recipe: Recipe,
    facts: PolicyFacts,
    hardware: Hardware,
    assumed: Assumed,
    *,
    optimizer: str,
    groups: RolloutSize | None = None,
) -> TrainerMemory:
    """What one process of the trainer needs, with the recipe's ZeRO stage.

    Args:
        groups: the mean rollout, where rows hold groups that share a prompt.
    """
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
        masks=max(window_mask_bytes(facts, recipe, row), prompt_mask_bytes(facts, recipe, groups)) / GIB,
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


def longest_row(facts: PolicyFacts, recipe: Recipe, gib: float) -> int:
    """Most tokens, in thousands of 1,024, of one dialogue whose activations and masks fit into `gib`."""
    low, high = 0, 2**14
    while high - low > 1:
        middle = (low + high) // 2
        tokens = middle * 1024
        needed = tokens * activation_bytes(facts, recipe) + window_mask_bytes(facts, recipe, tokens)
        low, high = (middle, high) if needed <= gib * GIB else (low, middle)
    return low * 1024


def window_mask_bytes(facts: PolicyFacts, recipe: Recipe, row: int) -> float:
    """Bytes of the masks of one dialogue of `row` tokens where layers have a sliding window.

    A mask is made as booleans and twice as numbers; then one copy stays, in every layer or (recompute) one.
    """
    local = facts.layers - facts.global_layers
    if not local or row <= facts.window:
        return 0.0
    number = 2.0 if recipe.policy.dtype == "bfloat16" else 4.0
    kept = 1 if recipe.runtime.trainer.recompute or facts.copies * row * row <= FOLDED_MASK else local
    return row * row * (number * (kept + 1) + 2.0)


def prompt_mask_bytes(facts: PolicyFacts, recipe: Recipe, groups: RolloutSize | None) -> float:
    """Bytes of the masks of a row whose answers hang on their group's prompt; 0 where fewer than two fit."""
    if groups is None:
        return 0.0
    trainer, answer = recipe.runtime.trainer, groups.tokens - groups.opening
    answers = (trainer.micro_batch_tokens - groups.opening) // answer
    if answers < 2:
        return 0.0
    number = 2.0 if recipe.policy.dtype == "bfloat16" else 4.0
    elements = answer * groups.tokens
    if facts.copies * elements <= FOLDED_MASK:
        return answers * facts.copies * elements * number
    return answers * elements * number * (1 if trainer.recompute else facts.layers)


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
