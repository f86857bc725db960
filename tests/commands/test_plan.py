"""`mimo plan` as a program: reasons and needs, text and JSON, exit codes of --check, light."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.mimo.pipeline.conftest import ROOT, Bench

pytestmark = pytest.mark.slow

HEAVY = ("torch", "mlflow", "vllm", "deepspeed", "transformers", "numpy", "docker", "huggingface_hub")


def test_a_fresh_recipe(bench: Bench) -> None:
    text = bench.call("plan", str(bench.recipe), "--profile", "smoke")
    assert text.returncode == 0, text.stderr
    lines = [line.split() for line in text.stdout.splitlines()]
    assert ["prepare-env", "run", "never", "made"] in lines
    (needs,) = (line for line in lines if line[:1] == ["rl-mixed"] and "GiB" in line)
    assert needs.count("GiB") == 2
    assert "cpu/verification" in text.stdout
    assert not bench.home.root.exists() or not list(bench.home.runs.glob("*"))


def test_json_and_check_before_and_after_a_run(bench: Bench) -> None:
    args = ("plan", str(bench.recipe), "--profile", "smoke", "--json")
    before = json.loads(bench.call(*args).stdout)
    assert before["schema"] == 1
    assert before["totals"]["to_do_seconds"] > 0
    assert before["policy"]["known_from"] == "policy.init"
    assert {row["stage"]: row["to_do"] for row in before["stages"]}["rl-mixed"] == 1.0
    assert all({"name", "value", "unit", "source"} == set(item) for item in before["assumptions"])
    work = bench.call(*args, "--check")
    assert work.returncode == 3
    assert "have work: prepare-env" in work.stderr
    assert json.loads(work.stdout) == before
    assert bench.run().error is None
    done = bench.call(*args, "--check")
    assert done.returncode == 0, done.stderr
    after = json.loads(done.stdout)
    assert after["totals"]["to_do_seconds"] == 0
    assert after["totals"]["seconds"] == before["totals"]["seconds"]


def test_what_cannot_run_here_is_69(bench: Bench) -> None:
    no_gpu = {
        **os.environ,
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONPATH": str(ROOT),
        "MIMO_HOME": str(bench.home.root),
    }
    sets = ["--set", "rl_mixed.optimizer.name=muon", "--set", "runtime.trainer.zero_stage=2"]
    call = [sys.executable, "-m", "mimo", "plan", "pro", "--profile", "node", "--check", *sets]
    done = subprocess.run(call, env=no_gpu, capture_output=True, text=True, check=False)
    assert done.returncode == 69
    assert "the sampler needs 8 GPUs, there are none" in done.stderr
    assert "optimizer muon with runtime.trainer.zero_stage 2" in done.stderr
    assert "in the way" in done.stdout


def test_a_wrong_card_is_one_line(bench: Bench) -> None:
    wrong = bench.call("plan", str(bench.recipe), "--profile", "smoke", "--set", "runtime.plan.gpu=h1000")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("error: runtime.plan.gpu: 'h1000' is not known (did you mean h100?)")


def test_it_loads_nothing_heavy(bench: Bench) -> None:
    code = (
        "import sys; from commands.cli import cli; "
        "cli.main(sys.argv[1:], standalone_mode=False); "
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT), "MIMO_HOME": str(bench.home.root)}
    call = [sys.executable, "-c", code, "plan", str(bench.recipe), "--profile", "smoke"]
    done = subprocess.run(call, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
