"""GPU times: the published throughput of other RL systems, and the paper's own cost as a held-out check.

The three shares of `assumptions.py` were fitted to NeMo RL's table alone; Pro's and Flash's cost entered
nothing.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from mimo.pipeline.estimate import estimate, hardware_of
from mimo.pipeline.estimate.assumptions import Assumed
from mimo.pipeline.estimate.gpu_time import GpuTime
from mimo.pipeline.estimate.hardware import CARDS, Hardware
from mimo.pipeline.estimate.policy_facts import PolicyFacts, facts_of, known_policies
from mimo.pipeline.estimate.work import RolloutSize, Work
from mimo.recipe.loader import load_recipe
from mimo.recipe.machine import Machine

NOWHERE = Machine(gpus=(), cores=2, memory_gib=24.0)

# Source: NVIDIA NeMo RL, performance summary, v0.4, DGX H100, bfloat16, on policy, OpenMathInstruct-2.
# policy, mean tokens, rollouts, GPUs, generation's tensor parallel, training tokens per second and GPU
NEMO = [
    ("hf:meta-llama/Llama-3.1-8B-Instruct", 1060, 2048, 16, 1, 1562.0),
    ("hf:Qwen/Qwen3-32B", 3206, 2048, 32, 4, 540.0),
    ("hf:Qwen/Qwen3-30B-A3B", 3154, 2048, 32, 4, 925.0),
    ("hf:Qwen/Qwen3-235B-A22B", 5671, 512, 128, 16, 45.7),
    ("deepseek-v3", 745, 512, 256, 32, 11.0),
]
PROMPT = 100
DEEPSEEK_V3 = PolicyFacts(
    source="deepseek-v3",
    known_from="report",
    layers=61,
    global_layers=61,
    window=0,
    hidden=7168,
    query=128 * 192,
    attended=128 * (192 + 128),
    kv=576,
    feed_forward=9 * 2048,
    vocabulary=129_280,
    tied=False,
    body=669_000_000_000,
    active_body=36_000_000_000,
)


def system(policy: str, tokens: int, rollouts: int, gpus: int, parallel: int) -> float:
    """Training tokens per second and GPU of one step that samples, then trains, on the same GPUs."""
    overrides = [
        f"runtime.sampler.tensor_parallel={parallel}",
        "runtime.sampler.max_num_seqs=256",
        f"runtime.sandbox.concurrency={rollouts}",
        f"runtime.sandbox.verifiers={rollouts}",
        "runtime.trainer.zero_stage=0",
    ]
    if policy == "deepseek-v3":
        facts = DEEPSEEK_V3
    else:
        config = known_policies()[policy]["config"]
        facts = facts_of(config, source=policy, known_from="table")  # type: ignore[arg-type]
    written = tokens - PROMPT
    work = Work(
        stage="rl-mixed",
        rollouts=rollouts,
        groups=rollouts / 32,
        turns=rollouts,
        generated=rollouts * written,
        prefilled=rollouts * PROMPT,
        computed=rollouts * tokens,
        trained=rollouts * written,
        steps=1,
        sequential=1,
    )
    hardware = Hardware(
        card=CARDS["h100"],
        chosen="test",
        sampler_gpus=gpus,
        trainer_gpus=gpus,
        shared=True,
        cores=96,
        memory_gib=None,
        usd_gpu_hour=2.0,
    )
    clock = GpuTime(
        recipe=load_recipe("pro", profile="node", overrides=overrides).model,
        facts=facts,
        size=RolloutSize(tokens=tokens, generated=written, turns=1.0, opening=PROMPT),
        hardware=hardware,
        card=CARDS["h100"],
        assumed=Assumed(),
    )
    parts = clock.parts(work)
    return work.computed / (parts["sampling"] + parts["training"]) / gpus


@pytest.mark.parametrize(("policy", "tokens", "rollouts", "gpus", "parallel", "measured"), NEMO)
def test_published_systems_within_a_factor_of_two(
    policy: str, tokens: int, rollouts: int, gpus: int, parallel: int, measured: float
) -> None:
    assert 0.5 < system(policy, tokens, rollouts, gpus, parallel) / measured < 2.0


def paper(variant: str, parallel: int, *overrides: str) -> float:
    """USD of rl-mixed at the sizes that the report gives: 1,568 x 16 rollouts, 30 steps, 3.2e9 tokens."""
    sizes = [
        "policy.context_tokens=1048576",
        "runtime.plan.rollout_tokens=127500",
        "runtime.plan.sampler_gpus=2048",
        "runtime.plan.trainer_gpus=2048",
        "runtime.sampler.max_num_seqs=256",
        f"runtime.sampler.tensor_parallel={parallel}",
        "runtime.sandbox.concurrency=25088",
        "runtime.sandbox.verifiers=512",
    ]
    recipe = load_recipe(variant, profile="cluster", overrides=[*sizes, *overrides]).model
    assert (recipe.rl_mixed.groups_per_step, recipe.rl_mixed.group_size, recipe.rl_mixed.steps) == (
        1568,
        16,
        30,
    )
    usd = estimate(recipe, hardware_of(recipe, NOWHERE)).stages["rl-mixed"].usd
    assert usd is not None
    return usd


REPORTED = {"pro": (2.6e6, 32), "flash": (0.9e6, 16)}
"""USD of RL (the report), and the GPUs that one copy of the weights needs."""


@pytest.mark.parametrize("variant", REPORTED)
@pytest.mark.parametrize("tokens", [107_600, 127_500, 147_500])  # 2.7e9, 3.2e9, 3.7e9 a step, as reported
@pytest.mark.parametrize("gpus", [1024, 4096])  # "thousands of GPUs"
def test_the_papers_cost_within_a_factor_of_two(variant: str, tokens: int, gpus: int) -> None:
    reported, parallel = REPORTED[variant]
    named = [f"runtime.plan.{part}_gpus={gpus}" for part in ("sampler", "trainer")]
    usd = paper(variant, parallel, f"runtime.plan.rollout_tokens={tokens}", *named)
    assert 0.5 < usd / reported < 2.0


def test_pro_costs_more_than_flash_in_the_papers_proportion() -> None:
    ratio = paper("pro", 32) / paper("flash", 16)
    assert 0.5 < ratio / (2.6 / 0.9) < 2.0


def clock(*overrides: str, gpus: int = 8) -> tuple[GpuTime, Work]:
    recipe = load_recipe("pro", profile="node", overrides=overrides).model
    hardware = replace(hardware_of(recipe, NOWHERE), sampler_gpus=gpus, trainer_gpus=gpus)
    config = known_policies()["hf:Qwen/Qwen3-8B"]["config"]
    facts = facts_of(config, source="qwen", known_from="table")  # type: ignore[arg-type]
    size = RolloutSize(tokens=4000.0, generated=1000.0, turns=10.0, opening=1000.0)
    made = GpuTime(
        recipe=recipe, facts=facts, size=size, hardware=hardware, card=CARDS["h100"], assumed=Assumed()
    )
    work = Work(
        stage="rl-mixed",
        rollouts=1024,
        turns=10240,
        generated=1.024e6,
        prefilled=3e6,
        computed=4e6,
        trained=1e6,
        steps=1,
        sequential=1,
    )
    return made, work


def test_boxes_limit_what_is_decoded_at_a_time() -> None:
    few, work = clock("runtime.sandbox.concurrency=64")
    many, _ = clock("runtime.sandbox.concurrency=1024")
    assert few.at_a_time(work) == 64 / 8
    assert many.at_a_time(work) == 64  # runtime.sampler.max_num_seqs
    assert few.parts(work)["sampling"] > 2 * many.parts(work)["sampling"]


def test_more_gpus_train_faster_and_zero_3_fetches_weights() -> None:
    few, work = clock("runtime.trainer.zero_stage=2")
    many, _ = clock("runtime.trainer.zero_stage=2", gpus=16)
    assert many.parts(work)["training"] == pytest.approx(few.parts(work)["training"] / 2)
    fetching, _ = clock("runtime.trainer.zero_stage=3")
    assert fetching.parts(work)["training"] > few.parts(work)["training"]


def test_few_verifiers_hold_everything_up() -> None:
    slow, work = clock("runtime.sandbox.concurrency=1024", "runtime.sandbox.verifiers=1")
    assert slow.parts(work)["sampling"] >= 1024 * 0.1
