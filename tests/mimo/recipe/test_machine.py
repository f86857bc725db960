"""The machine decides the profile once, and says what it lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from mimo.errors import MachineLacks, RecipeError
from mimo.recipe.loader import load_recipe
from mimo.recipe.machine import (
    Gpu,
    Machine,
    check_machine,
    decide_profile,
    load_for_machine,
    machine_lacks,
    this_machine,
)

GPU = Gpu(name="H200", memory_gib=139.0, free_gib=138.0)


def machine(gpus: int) -> Machine:
    return Machine(gpus=(GPU,) * gpus, cores=2, memory_gib=24.0)


@pytest.mark.parametrize(
    ("gpus", "profile"),
    [(0, "laptop"), (1, "single"), (2, "single"), (7, "single"), (8, "node"), (64, "node")],
)
def test_decision(gpus: int, profile: str) -> None:
    decided, reason = decide_profile(machine(gpus))
    assert decided == profile
    assert reason


@pytest.mark.parametrize(
    ("profile", "gpus", "runs"),
    [
        ("laptop", 0, True),
        ("smoke", 0, True),
        ("single", 0, False),
        ("single", 1, True),
        ("node", 1, False),
        ("node", 8, True),
        ("cluster", 8, False),
    ],
)
@pytest.mark.parametrize("recipe", ["pro", "flash"])
def test_what_runs_where(recipe: str, profile: str, gpus: int, runs: bool) -> None:
    model = load_recipe(recipe, profile=profile).model
    if runs:
        check_machine(model, profile, machine(gpus))
    else:
        with pytest.raises(MachineLacks) as caught:
            check_machine(model, profile, machine(gpus))
        assert caught.value.exit_code == 69
        assert profile in caught.value.message


def test_everything_that_is_missing_is_named() -> None:
    model = load_recipe("pro", profile="cluster").model
    assert machine_lacks(model, "cluster", machine(0)) == [
        "the sampler needs 8 GPUs, there are none",
        "the trainer needs 8 GPUs, there are none",
        "a cluster needs runtime.trainer.hostfile or launcher: slurm",
        "a cluster needs its servers in runtime.sampler.urls",
    ]


def test_docker_boxes_need_every_named_daemon(tmp_path: Path) -> None:
    gone = f"unix://{tmp_path}/none.sock"
    named = ["sandbox.backend=docker", f"runtime.sandbox.hosts=['{gone}', 'ssh://me@box']"]
    model = load_recipe("pro", profile="smoke", overrides=named).model
    with pytest.raises(MachineLacks) as caught:
        check_machine(model, "smoke", machine(0))
    assert caught.value.exit_code == 69
    assert (
        f"sandbox.backend is docker and no Docker daemon answers at {gone}: No such file"
        in caught.value.message
    )
    assert "'ssh://me@box' is no Docker address" in caught.value.message
    assert "dockerd" in caught.value.message
    assert "GPU" not in str(caught.value.hint)


def test_a_cluster_whose_machines_are_named_runs_from_anywhere() -> None:
    named = ["runtime.sampler.urls=['http://a:8000']", "runtime.trainer.hostfile=hosts"]
    model = load_recipe("pro", profile="cluster", overrides=named).model
    check_machine(model, "cluster", machine(0))


def test_a_policy_package_that_is_not_installed_is_named() -> None:
    model = load_recipe("pro", profile="laptop", overrides=["policy.source=package:no_such_weights"]).model
    assert machine_lacks(model, "laptop", machine(0)) == [
        "the policy's package no_such_weights is not installed"
    ]


def test_without_a_profile_the_machine_chooses(tmp_path: Path) -> None:
    resolved, reason = load_for_machine("pro", profile=None, machine=machine(0))
    assert (resolved.profile, reason) == ("laptop", "no GPU")
    resolved, reason = load_for_machine("pro", profile="smoke", machine=machine(8))
    assert (resolved.profile, reason) == ("smoke", None)

    alone = tmp_path / "alone.yaml"
    alone.write_text(load_recipe("pro", profile="smoke").resolved_yaml())
    resolved, reason = load_for_machine(alone, profile=None, machine=machine(0))
    assert (resolved.profile, reason) == (None, "the recipe has no profiles")

    alone.write_text(alone.read_text() + "profiles: {mine: {}}\n")
    with pytest.raises(RecipeError, match="has no profile 'laptop'") as caught:
        load_for_machine(alone, profile=None, machine=machine(0))
    assert caught.value.hint == "name one with --profile: mine"


def test_gpus_come_from_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(
        "#!/bin/sh\necho '0, GPU-aa, 143771, 143000, NVIDIA H200'\necho '1, GPU-bb, 81920, [N/A], X, Y'\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    found = this_machine().gpus
    assert [gpu.name for gpu in found] == ["NVIDIA H200", "X, Y"]
    assert found[0].memory_gib == pytest.approx(140.4, abs=0.1)
    for visible, names in (("1", ["X, Y"]), ("GPU-aa", ["NVIDIA H200"]), ("", [])):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert [gpu.name for gpu in this_machine().gpus] == names
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    program.write_text("#!/bin/sh\necho 'driver mismatch' >&2\nexit 9\n")
    assert this_machine().gpus == ()
