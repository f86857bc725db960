"""Memory per GPU: worked numbers of ZeRO's stages and of the KV cache, and a measured trainer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mimo.pipeline.estimate.assumptions import Assumed
from mimo.pipeline.estimate.hardware import CARDS, Hardware
from mimo.pipeline.estimate.memory import (
    FOLDED_MASK,
    GIB,
    SamplerMemory,
    TrainerMemory,
    activation_bytes,
    longest_row,
    prompt_mask_bytes,
    sampler_memory,
    trainer_memory,
    window_mask_bytes,
)
from mimo.pipeline.estimate.policy_facts import PolicyFacts, policy_facts
from mimo.pipeline.estimate.work import RolloutSize
from mimo.recipe.loader import load_recipe
from mimo.recipe.models import Recipe
from mimo.training import attention
from mimo.training.batch import TrainSequence
from mimo.training.packing import plan_rows

H100 = Hardware(
    card=CARDS["h100"],
    chosen="test",
    sampler_gpus=8,
    trainer_gpus=8,
    shared=True,
    cores=96,
    memory_gib=None,
    usd_gpu_hour=2.0,
)


def node(*overrides: str) -> tuple[Recipe, PolicyFacts]:
    recipe = load_recipe("pro", profile="node", overrides=overrides).model
    facts = policy_facts(recipe)
    assert facts is not None
    return recipe, facts


def trainer(*overrides: str, optimizer: str = "adamw", hardware: Hardware = H100) -> TrainerMemory:
    recipe, facts = node(*overrides)
    return trainer_memory(recipe, facts, hardware, Assumed(), optimizer=optimizer)


# 8.19e9 parameters on 8 GPUs in bfloat16, in bytes a parameter: weights, gradients, optimiser with masters
ZERO = {0: (6.0, 4.0, 8.0), 1: (2.0, 4.0, 1.5), 2: (2.0, 0.5, 1.5), 3: (0.25, 0.5, 1.5)}


@pytest.mark.parametrize("stage", ZERO)
def test_zero_splits_what_it_says(stage: int) -> None:
    memory = trainer(f"runtime.trainer.zero_stage={stage}")
    number = 8.190e9 / GIB
    expected = [number * part for part in ZERO[stage]]
    assert [memory.weights, memory.gradients, memory.optimizer] == pytest.approx(expected, rel=1e-3)


def test_muon_keeps_one_moment_of_hidden_matrices() -> None:
    _, facts = node()
    adamw, muon = (
        trainer("runtime.trainer.zero_stage=0"),
        trainer("runtime.trainer.zero_stage=0", optimizer="muon"),
    )
    assert adamw.optimizer - muon.optimizer == pytest.approx(4.0 * facts.body / GIB)


def test_the_longest_rollout_is_a_row_of_its_own() -> None:
    long = trainer("policy.context_tokens=65536", "runtime.trainer.micro_batch_tokens=4096")
    short = trainer("policy.context_tokens=32768", "runtime.trainer.micro_batch_tokens=4096")
    assert (long.row_tokens, short.row_tokens) == (65536, 32768)
    assert long.activations == pytest.approx(2 * short.activations)
    wide = trainer("policy.context_tokens=32768", "runtime.trainer.micro_batch_tokens=131072")
    assert wide.row_tokens == 131072


def test_masks_are_those_that_attention_makes() -> None:
    """One dialogue of 8,192 tokens through sliding windows, made once as bool and twice as numbers."""
    assert FOLDED_MASK == attention.FOLDED_MASK
    recipe, facts = node("runtime.trainer.recompute=false")
    windows = replace(facts, window=128, global_layers=facts.layers - 20)
    assert window_mask_bytes(facts, recipe, 8192) == 0.0
    assert window_mask_bytes(windows, recipe, 128) == 0.0
    assert window_mask_bytes(windows, recipe, 8192) == 8192**2 * (2 * 21 + 2)
    again, _ = node("runtime.trainer.recompute=true")
    assert window_mask_bytes(windows, again, 8192) == 8192**2 * (2 * 2 + 2)


@pytest.mark.parametrize("answer", [100, 2000])
def test_masks_of_a_group_that_shares_its_prompt(answer: int) -> None:
    """As many as a real row makes, of one prompt of 96 tokens and all the answers that the budget lets in."""
    recipe, facts = node("runtime.trainer.recompute=false")
    size = RolloutSize(tokens=96.0 + answer, generated=50.0, turns=1.0, opening=96.0)
    found = prompt_mask_bytes(facts, recipe, size)
    drawn = [
        TrainSequence(
            rollout_id=str(place),
            token_ids=np.ones(96 + answer, dtype=np.int32),
            loss_mask=np.arange(96 + answer) >= 96,
            sampler_logprobs=np.zeros(96 + answer, dtype=np.float32),
            advantages=np.ones(96 + answer, dtype=np.float32),
            loss_weight=1.0,
            prefix_group="g",
            prefix_len=96,
        )
        for place in range(64)
    ]
    rows = plan_rows(drawn, budget=recipe.runtime.trainer.micro_batch_tokens, ranks=1)[0]
    hanging = [span for span in rows[0].segments if span[3] > span[2]]  # type: ignore[union-attr]
    elements = sum((end - start) * (96 + end - start) for start, end, _, _ in hanging)
    folded = 4 * answer * (96 + answer) <= FOLDED_MASK  # Qwen3-8B: 32 query heads over 8
    assert found == elements * 2 * (4 if folded else facts.layers)
    assert prompt_mask_bytes(facts, recipe, replace(size, tokens=4000.0)) == 0.0


def test_the_longest_row_fits_and_a_longer_one_does_not() -> None:
    recipe, facts = node()
    windows = replace(facts, window=128, global_layers=1)
    for policy in (facts, windows):
        tokens = longest_row(policy, recipe, 20.0)
        needs = [
            (n * activation_bytes(policy, recipe) + window_mask_bytes(policy, recipe, n)) / GIB
            for n in (tokens, tokens + 1024)
        ]
        assert needs[0] <= 20.0 < needs[1]
    assert longest_row(windows, recipe, 20.0) < longest_row(facts, recipe, 20.0)
    assert longest_row(facts, recipe, 1e-6) == 0


def sampler(*overrides: str) -> SamplerMemory:
    recipe, facts = node(*overrides)
    return sampler_memory(recipe, facts, H100, Assumed())


def test_the_cache_of_qwen3_8b() -> None:
    # 36 layers x keys and values x 8 heads x 128 x 2 bytes
    assert sampler().kv_bytes_a_token == 36 * 2 * 8 * 128 * 2
    one, two = sampler("runtime.sampler.tensor_parallel=1"), sampler("runtime.sampler.tensor_parallel=2")
    assert two.weights == pytest.approx(one.weights / 2)
    assert two.sequences > 2 * one.sequences
    assert one.total == pytest.approx(0.5 * 79.6)


def test_a_measured_trainer_on_the_cpu() -> None:
    """The laptop's trainer takes 5.3 GB with rows of 4,096 tokens (docs/development.md)."""
    recipe = load_recipe("pro", profile="laptop").model
    facts = policy_facts(recipe)
    assert facts is not None
    cpu = replace(H100, card=None, memory_gib=24.0)
    memory = trainer_memory(recipe, facts, cpu, Assumed(), optimizer="adamw")
    assert memory.total * GIB / 1e9 == pytest.approx(5.3, rel=0.2)
    served = sampler_memory(recipe, facts, cpu, Assumed())
    assert 2.5 < served.total * GIB / 1e9 < 4.0
