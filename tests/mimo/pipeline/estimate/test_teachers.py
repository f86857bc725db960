"""Where the plan expects mopd2's teachers, what that takes and costs; as the stage itself will choose."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mimo.pipeline.estimate import Estimate, Problem, estimate, hardware_of
from mimo.pipeline.estimate.policy_facts import known_policies
from mimo.pipeline.estimate.teachers import Teachers
from mimo.recipe.loader import load_recipe
from mimo.recipe.machine import Gpu, Machine, machine_lacks
from mimo.training.reading_place import GIB, needed_bytes

H100 = Gpu(name="NVIDIA H100 80GB HBM3", memory_gib=79.6, free_gib=79.0)
NODE = Machine(gpus=(H100,) * 8, cores=96, memory_gib=1000.0)


def made(profile: str, *overrides: str, machine: Machine = NODE) -> Estimate:
    recipe = load_recipe("pro", profile=profile, overrides=overrides).model
    return estimate(recipe, hardware_of(recipe, machine))


def teachers(found: Estimate) -> Teachers:
    place = found.stages["mopd2"].teachers
    assert place is not None
    return place


def scoring(found: Estimate) -> float:
    return (found.stages["mopd2"].parts or {})["scoring"]


def about_teachers(found: Estimate) -> list[Problem]:
    return [item for item in found.problems if "teacher" in item.what]


def test_a_node_reads_them_on_all_its_gpus() -> None:
    found = made("node")
    place = teachers(found)
    assert place.gpus == 8
    assert place.reading + place.beside < H100.memory_gib
    assert about_teachers(found) == []
    slow = made("node", "runtime.teachers.device=cpu")
    assert scoring(slow) > 10 * scoring(found)
    assert "CPUs of one machine" in about_teachers(slow)[0].what
    others = [name for name in found.stages if name != "mopd2"]
    assert all(found.stages[name].seconds == slow.stages[name].seconds for name in others)
    assert found.stages["rl-mixed"].teachers is None


def test_time_is_flops_over_gpus_and_loads() -> None:
    """2 FLOPs a parameter and the attention over half a rollout, .35 of 989 TFLOP/s on each GPU."""
    named = ("runtime.trainer.num_processes=4", "runtime.sampler.data_parallel=4")
    found, four = made("node"), made("node", *named)
    work, facts = found.stages["mopd2"].work, found.policy
    assert facts is not None
    flops = work.scored * (2 * facts.active + facts.attention_flops(found.size.tokens / 2))
    loads = work.folder_loads * 2 * facts.exported * (1 / 1e9 + 8 / 10e9)
    assert scoring(found) == pytest.approx(flops / (8 * 989e12 * 0.35) + loads)
    assert teachers(four).gpus == 4
    assert 1.5 * scoring(found) < scoring(four) < 2 * scoring(found)


def test_a_trainer_on_the_cpu_and_a_laptop_keep_them_on_the_cpu() -> None:
    found = made("laptop", machine=Machine(gpus=(), cores=2, memory_gib=23.5))
    assert (teachers(found).gpus, about_teachers(found)) == (0, [])
    assert teachers(made("node", "runtime.trainer.device=cpu")).gpus == 0


def test_no_room_is_said_and_stops_only_where_gpus_are_named() -> None:
    small = ("runtime.plan.gpu=a100-40", "policy.context_tokens=8192", "sampling.turn_tokens=1024")
    (problem, slow) = about_teachers(made("node", *small))
    assert "so that the CPU will read it" in problem.what
    assert not problem.stops
    assert "CPUs of one machine" in slow.what
    named = about_teachers(made("node", *small, "runtime.teachers.device=cuda"))[0]
    assert named.stops
    assert "zero_stage: 3" in named.change
    (memory,) = (
        item
        for item in about_teachers(
            made("node", *small, machine=Machine(gpus=(H100,) * 8, cores=96, memory_gib=16.0))
        )
        if "main memory" in item.what
    )
    assert memory.stops


def test_gpus_that_are_named_and_not_there_are_missed() -> None:
    recipe = load_recipe("pro", profile="laptop", overrides=["runtime.teachers.device=cuda"]).model
    nowhere = Machine(gpus=(), cores=2, memory_gib=24.0)
    assert "runtime.teachers.device is cuda and there is no GPU" in machine_lacks(recipe, "laptop", nowhere)


def test_the_stage_asks_for_the_same_room(tmp_path: Path) -> None:
    config = known_policies()["hf:Qwen/Qwen3-8B"]["config"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    facts = made("node").policy
    assert facts is not None
    with open(tmp_path / "model.safetensors", "wb") as file:
        file.truncate(2 * facts.exported)
    asked = needed_bytes([tmp_path], longest=65536, batch_tokens=4096, dtype="bfloat16")
    assert asked / GIB == pytest.approx(teachers(made("node")).reading, rel=1e-6)
