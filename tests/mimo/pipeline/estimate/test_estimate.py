"""The whole estimate: what does not fit and how to put it right, hardware, disk, assumptions, JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mimo.errors import RecipeError
from mimo.pipeline.estimate import Estimate, Problem, estimate, hardware_of
from mimo.pipeline.estimate.hardware import known_card
from mimo.recipe.loader import load_recipe
from mimo.recipe.machine import Gpu, Machine

H100 = Gpu(name="NVIDIA H100 80GB HBM3", memory_gib=79.6, free_gib=79.0)
NOWHERE = Machine(gpus=(), cores=2, memory_gib=23.5)
NODE = Machine(gpus=(H100,) * 8, cores=96, memory_gib=1000.0)
FITS = (
    "policy.context_tokens=4096",
    "sampling.turn_tokens=1024",
    "harness.observation_tokens=1024",
    "cold_start.optimizer.name=adamw",
    "rl_mixed.optimizer.name=adamw",
)
"""What makes Pro's node profile fit on 8 H100."""


def made(profile: str, *overrides: str, machine: Machine = NODE, home: Path | None = None) -> Estimate:
    recipe = load_recipe("pro", profile=profile, overrides=overrides).model
    return estimate(recipe, hardware_of(recipe, machine), home=home)


def said(found: Estimate, word: str) -> Problem:
    (problem,) = (item for item in found.problems if word in item.what)
    return problem


MUON = ("cold_start.optimizer.name=muon", "rl_mixed.optimizer.name=muon", "runtime.trainer.zero_stage=2")
LONG = (
    "runtime.trainer.recompute=false",
    "policy.context_tokens=65536",
    "policy.source=hf:Qwen/Qwen3-8B",
    "runtime.sandbox.concurrency=64",
)


def test_what_is_in_the_way_is_said_with_a_way_out() -> None:
    found = made("node", *MUON, *LONG)
    assert "activations of a row of 65,536 tokens" in said(found, "the trainer (").what
    assert "runtime.trainer.recompute: true" in said(found, "the trainer (").change
    assert "policy.context_tokens: " in said(found, "the trainer (").change
    assert "zero_stage 0, or adamw" in said(found, "optimizer muon").change
    assert not said(found, "64 boxes").stops


def test_what_is_advised_fits() -> None:
    assert [item.what for item in made("node", *FITS).problems if item.stops] == []


def test_a_policy_too_large_for_the_server_and_the_trainer() -> None:
    found = made("cluster", *FITS, "runtime.sampler.tensor_parallel=8")
    assert said(found, "the sampler:").change.startswith(
        "runtime.sampler.tensor_parallel: 32 or more (now 8)"
    )
    enough = made("cluster", *FITS, "runtime.sampler.tensor_parallel=32")
    assert not [item for item in enough.problems if "the sampler:" in item.what]
    advice = said(found, "the trainer (").change
    gpus = int(advice.partition(" GPUs (now 8)")[0].rpartition(" ")[2])
    split = [
        "runtime.trainer.zero_stage=3",
        "policy.context_tokens=1100",
        "runtime.trainer.micro_batch_tokens=1024",
        "runtime.sampler.urls=['http://elsewhere:1']",
    ]
    many = made("cluster", *FITS, *split, f"runtime.plan.trainer_gpus={gpus}")
    few = made("cluster", *FITS, *split, f"runtime.plan.trainer_gpus={gpus // 4}")
    assert not [item for item in many.problems if "the trainer (" in item.what]
    assert [item for item in few.problems if "the trainer (" in item.what]


def test_main_memory_that_the_trainers_start_needs() -> None:
    small = Machine(gpus=(H100,) * 8, cores=96, memory_gib=128.0)
    found = made("node", *FITS, machine=small)
    assert "8 processes read 244 GiB into main memory" in said(found, "main memory").what


def test_a_cpu_that_is_too_small() -> None:
    found = made("laptop", machine=Machine(gpus=(), cores=2, memory_gib=4.0))
    assert "this machine has 4.0" in said(found, "trainer and sampler").what
    assert made("laptop", machine=NOWHERE).problems == ()


def test_disk_is_compared_with_what_is_free(tmp_path: Path) -> None:
    found = made("node", *FITS, "rl_mixed.keep_checkpoints=100000", home=tmp_path / "not" / "yet")
    assert "rl_mixed.keep_checkpoints" in said(found, "of disk").change
    assert not [
        item for item in made("smoke", machine=NOWHERE, home=tmp_path).problems if "disk" in item.what
    ]
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_policy_is_said_and_nothing_is_guessed() -> None:
    found = made("node", "policy.source=hf:nobody/nothing-here")
    assert found.policy is None
    assert found.seconds(dict.fromkeys(found.stages, 1.0)) is None
    assert all(stage.seconds is None and stage.trainer is None for stage in found.stages.values())
    assert found.stages["rl-mixed"].work.rollouts > 0
    assert "runtime.plan.policy_config" in said(found, "are not known").change


def test_a_judge_is_not_priced_and_that_is_said() -> None:
    judge = ["grading.judge={model: m, max_tokens: 10, retries: 0}", "runtime.judge.url=http://a/v1"]
    assert not said(made("node", *FITS, *judge), "grading.judge m:").stops
    assert not [item for item in made("node", *FITS).problems if "judge" in item.what]


def test_a_cpu_profile_stays_on_the_cpu_whatever_card_is_named() -> None:
    assert made("laptop", "runtime.plan.gpu=h100").hardware.card is None
    auto = ("runtime.sampler.device=auto", "runtime.trainer.device=auto", "runtime.plan.gpu=h100")
    assert made("laptop", *auto, machine=NOWHERE).hardware.card is not None


def test_teachers_on_the_cpu_are_called_slow() -> None:
    asked = ("mopd2.samples_per_step=65536", "runtime.teachers.device=cpu")
    slow = said(made("node", *FITS, *asked), "mopd2:")
    assert not slow.stops
    assert "on the CPUs" in slow.what


@pytest.mark.parametrize(
    ("name", "memory", "card"),
    [
        ("NVIDIA H100 80GB HBM3", 79.6, "h100"),
        ("NVIDIA H200", 140.4, "h200"),
        ("NVIDIA A100-SXM4-80GB", 79.3, "a100-80"),
        ("NVIDIA A100-PCIE-40GB", 39.6, "a100-40"),
        ("NVIDIA GeForce RTX 4090", 24.0, "rtx-4090"),
        ("NVIDIA GB200", 186.0, "gb200"),
        ("NVIDIA L4", 22.5, "l4"),
        ("NVIDIA L40S", 45.0, "l40s"),
        ("Quadro K620", 2.0, None),
    ],
)
def test_nvidia_smis_names(name: str, memory: float, card: str | None) -> None:
    found = known_card(name, memory)
    assert (found.name if found else None) == card


def test_hardware_of_a_recipe(tmp_path: Path) -> None:
    recipe = load_recipe("pro", profile="node").model
    here = hardware_of(recipe, NODE)
    assert (here.gpus, here.shared, here.here, here.usd_gpu_hour) == (8, True, True, 2.0)
    assert "NVIDIA H100" in here.chosen
    hosts = tmp_path / "hosts"
    hosts.write_text("# machines\none slots=8\ntwo slots=4\n")
    named = [f"runtime.trainer.hostfile={hosts}", "runtime.sampler.urls=[http://a:1, http://b:1]"]
    apart = hardware_of(load_recipe("pro", profile="cluster", overrides=named).model, NODE)
    assert (apart.sampler_gpus, apart.trainer_gpus, apart.gpus, apart.shared) == (16, 12, 28, False)
    assert apart.memory_gib is None
    hosts.write_text("one\n")
    with pytest.raises(RecipeError, match="names no machine"):
        hardware_of(load_recipe("pro", profile="cluster", overrides=named).model, NODE)
    own = ["runtime.plan.gpu=h200", "runtime.plan.gpu_hour_usd=0"]
    free = hardware_of(load_recipe("pro", profile="node", overrides=own).model, NOWHERE)
    assert free.card is not None
    assert (free.card.name, free.usd_gpu_hour) == ("h200", 0.0)
    with pytest.raises(RecipeError, match="did you mean h100"):
        hardware_of(load_recipe("pro", profile="node", overrides=["runtime.plan.gpu=h1000"]).model, NOWHERE)


def test_cost_is_gpus_times_hours_times_price() -> None:
    found = made("node", *FITS, "runtime.plan.gpu_hour_usd=3.5")
    stage = found.stages["rl-mixed"]
    assert stage.seconds is not None
    assert stage.usd == pytest.approx(stage.seconds / 3600 * 8 * 3.5)
    assert found.stages["prepare-env"].usd == 0.0
    assert found.usd({"rl-mixed": 0.5}) == pytest.approx(stage.usd / 2)


def test_assumptions_are_those_that_were_used() -> None:
    cpu = {item.name for item in made("laptop", machine=NOWHERE).assumptions}
    gpu = {item.name for item in made("node").assumptions}
    assert "cpu/train_bf16" in cpu
    assert "cpu/train_f32" not in cpu
    assert not any(name.startswith("gpu/") for name in cpu)
    assert {"gpu/train_share_of_peak_dense", "gpu/rollout_share_of_roofline"} <= gpu
    assert "gpu/train_share_of_peak_moe" not in gpu
    assert all(item.source for item in made("node").assumptions)


def test_json_is_complete() -> None:
    stage = json.loads(json.dumps(made("node").stages["rl-mixed"].as_json()))
    assert stage["work"]["tokens_trained"] > 0
    assert stage["trainer_gib"]["total"] == pytest.approx(
        sum(
            stage["trainer_gib"][part]
            for part in ("weights", "gradients", "optimizer", "activations", "masks", "overhead")
        )
    )
    assert stage["seconds"] == pytest.approx(sum(stage["parts"].values()))
