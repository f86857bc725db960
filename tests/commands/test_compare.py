"""`mimo compare` as a program: run ids and recipes, text and JSON, clear errors, light and quick."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mimo.run_dir.runs import list_runs
from tests.mimo.pipeline.conftest import ROOT, Bench

pytestmark = pytest.mark.slow

HEAVY = ("torch", "mlflow", "vllm", "deepspeed", "transformers", "numpy")


@pytest.fixture
def two(bench: Bench) -> Bench:
    """A bench with two runs."""
    assert bench.run().error is None
    assert bench.run("rl_mixed.group_size=4").error is None
    return bench


def ids(bench: Bench) -> tuple[str, str]:
    """The older run, the newer one."""
    newer, older = list_runs(bench.home)
    return older.run_id, newer.run_id


def test_text_and_json_say_the_same(two: Bench) -> None:
    older, newer = ids(two)
    text = two.call("compare", older, newer)
    assert text.returncode == 0, text.stderr
    lines = text.stdout.splitlines()
    assert ["rl_mixed.group_size", "8", "4"] in [line.split() for line in lines]
    (shared,) = (line for line in lines if line.startswith("prepare-env ") and "same result" in line)
    assert f"reused from run {older}" in shared
    assert "A: a run without MLflow" in text.stdout
    data = json.loads(two.call("compare", older, newer, "--json").stdout)
    assert data["schema"] == 1
    assert data["params"] == [{"key": "rl_mixed.group_size", "a": 8, "b": 4}]
    assert (data["a"]["run"], data["b"]["run"]) == (older, newer)
    assert [row["stage"] for row in data["stages"] if row["shared"]] == ["prepare-env"]


def test_a_recipe_stands_for_its_newest_run(two: Bench) -> None:
    older, newer = ids(two)
    args = ("compare", older, str(two.recipe), "--json")
    assert json.loads(two.call(*args).stdout)["b"]["run"] == newer
    assert json.loads(two.call(*args, "--profile", "smoke").stdout)["b"]["run"] == newer
    assert json.loads(two.call("compare", older, "last", "--json").stdout)["b"]["run"] == newer
    none = two.call(*args, "--profile", "laptop")
    assert none.returncode == 2
    assert "has no run under profile laptop" in none.stderr
    assert "it has runs under smoke" in none.stderr
    assert f"hint: `mimo run {two.recipe} --profile laptop` makes one" in none.stderr


def test_errors_are_clear(two: Bench) -> None:
    older, newer = ids(two)
    wrong = two.call("compare", older, newer[:-1] + "_")
    assert wrong.returncode == 2
    assert "is no run in" in wrong.stderr
    assert f"(did you mean '{newer}'?)" in wrong.stderr
    same = two.call("compare", newer, str(two.recipe))
    assert same.returncode == 2
    assert f"error: both are run {newer}" in same.stderr


def test_it_is_light_and_quick(two: Bench) -> None:
    """Nothing heavy is loaded; a second of processor time is twice what it takes."""
    code = (
        "import atexit, sys\nfrom commands.cli import main\n"
        f"atexit.register(lambda: print([name for name in {HEAVY!r} if name in sys.modules]))\n"
        f"sys.argv[1:] = ['compare', *{ids(two)!r}]\nmain()\n"
    )
    env = {**os.environ, "MIMO_HOME": str(two.home.root)}
    before = os.times()
    shown = subprocess.run([sys.executable, "-c", code], env=env, cwd=ROOT, capture_output=True, text=True)
    after = os.times()
    assert shown.stdout.splitlines()[-1] == "[]"
    used = after.children_user + after.children_system - before.children_user - before.children_system
    assert used < 1.0


def test_a_living_run_can_be_compared(two: Bench, tmp_path: Path) -> None:
    older, _ = ids(two)
    process = two.start("run", str(two.recipe), "--profile", "smoke", "--set", "rl_mixed.group_size=6",
                        knobs={"sleep": 0.5})  # fmt: skip
    deadline = time.monotonic() + 60
    while not any(two.home.outputs("rl-mixed").glob("*.work/progress.json")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    data = json.loads(two.call("compare", older, str(two.recipe), "--json").stdout)
    process.communicate()
    assert process.returncode == 0
    assert data["b"]["status"] == "running"
    (row,) = (row for row in data["stages"] if row["stage"] == "rl-mixed")
    assert row["b"]["what"] == "running"
    assert row["b"]["why"].endswith("of 4 units")
