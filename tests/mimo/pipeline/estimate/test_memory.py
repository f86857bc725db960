"""Memory per GPU: worked numbers of ZeRO's stages and of the KV cache, and a measured trainer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mimo.pipeline.estimate.assumptions import Assumed
from mimo.pipeline.estimate.hardware import CARDS, Hardware
from mimo.pipeline.estimate.memory import GIB, SamplerMemory, TrainerMemory, sampler_memory, trainer_memory
from mimo.pipeline.estimate.policy_facts import PolicyFacts, policy_facts
from mimo.recipe.loader import load_recipe
from mimo.recipe.models import Recipe

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


def sampler(*overrides: str) -> SamplerMemory:
    recipe, facts = node(*overrides)
    return sampler_memory(recipe, facts, H100, Assumed())


def test_the_cache_of_qwen3_8b() -> None:
    # 36 layers x keys and values x 8 heads x 128 x 2 bytes
    assert sampler().kv_bytes_a_token == 36 * 2 * 8 * 128 * 2
    one, two = sampler("runtime.sampler.tensor_parallel=1"), sampler("runtime.sampler.tensor_parallel=2")
    assert two.weights == pytest.approx(one.weights / 2)
    assert two.sequences > 2 * one.sequences
    assert one.total == pytest.approx(0.85 * 79.6)


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
