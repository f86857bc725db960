"""`mimo recipe` and `mimo doctor`: exit codes, output, and that nothing heavy is imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

HEAVY = ("torch", "mlflow", "vllm", "deepspeed", "transformers", "git")


def mimo(*args: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mimo", *args],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=cwd,
        env={**os.environ, **env},
        check=False,
    )


def test_check_says_which_profiles_run_here(tmp_path: Path) -> None:
    done = mimo("recipe", "check", "pro", cwd=tmp_path, CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "pro: pro is a valid recipe"
    assert "  node: the sampler needs 8 GPUs, there are none; the trainer needs 8 GPUs" in done.stdout
    assert "  smoke: can run here" in done.stdout


def test_check_finds_what_is_wrong_in_any_profile(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text(
        "schema: 1\nextends: pro\nsed: 3\nprofiles:\n  smoke: {rl_mixed: {group_size: 1}}\n"
    )
    done = mimo("recipe", "check", "r.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "error: 2 problems in the recipe",
        "  r.yaml:3:1: sed: unknown key (did you mean 'seed'?)",
        "  r.yaml:5:22: rl_mixed.group_size: should be greater than or equal to 2, got 1",
    ]
    assert done.stdout == ""
    one = mimo("recipe", "check", "r.yaml", "--profile", "laptop", cwd=tmp_path)
    assert one.stderr.splitlines() == ["error: r.yaml:3:1: sed: unknown key (did you mean 'seed'?)"]


def test_check_as_json() -> None:
    done = mimo("recipe", "check", "flash", "--profile", "smoke", "--json")
    assert json.loads(done.stdout) == {
        "schema": 1,
        "recipe": "flash",
        "profiles": [{"profile": "smoke", "runs_here": True, "lacks": []}],
    }


def test_show_is_a_recipe_again(tmp_path: Path) -> None:
    done = mimo("recipe", "show", "pro", "--profile", "smoke", "--set", "seed=9")
    assert done.returncode == 0, done.stderr
    assert yaml.safe_load(done.stdout)["seed"] == 9
    (tmp_path / "copy.yaml").write_text(done.stdout)
    again = mimo("recipe", "show", "copy.yaml", cwd=tmp_path)
    assert again.stdout.splitlines()[1:] == done.stdout.splitlines()[1:]


def test_show_says_which_profile_and_why() -> None:
    done = mimo("recipe", "show", "pro", CUDA_VISIBLE_DEVICES="")
    assert done.stderr.splitlines() == ["profile laptop: no GPU"]


def test_show_origin() -> None:
    done = mimo("recipe", "show", "pro", "--profile", "smoke", "--origin", "--set", "seed=9")
    lines = {line.split(" = ")[0]: line for line in done.stdout.splitlines()}
    assert lines["seed"].split() == ["seed", "=", "9", "#", "--set", "seed=9"]
    assert "recipes/pro.yaml:" in lines["policy.source"]
    assert "recipes/base.yaml:" in lines["grading.gar_cap"]
    as_json = json.loads(mimo("recipe", "show", "pro", "--profile", "smoke", "--json").stdout)
    assert as_json["recipe"]["policy"]["source"] == "init:tiny"
    assert "recipes/pro.yaml:" in as_json["origins"]["policy.source"]


def test_schema_is_json_schema() -> None:
    schema = json.loads(mimo("recipe", "schema").stdout)
    assert "rl_mixed" in schema["properties"]
    group_size = schema["$defs"]["RlMixed"]["properties"]["group_size"]
    assert group_size["description"] == "Rollouts of a group, at least 2."


def test_help_is_the_same_here_and_in_the_table() -> None:
    import importlib

    from commands.cli import COMMANDS

    for name in ("recipe", "doctor"):
        target, summary = COMMANDS[name]
        module, _, attribute = target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert command.help.splitlines()[0] == summary


@pytest.mark.parametrize(
    "args", [["--help"], ["recipe", "check", "pro"], ["recipe", "show", "pro"], ["doctor"]]
)
def test_nothing_heavy_is_imported(args: list[str]) -> None:
    code = (
        "import sys, commands.cli as c\n"
        f"sys.argv = ['mimo', *{args!r}]\n"
        "try: c.main()\n"
        "except SystemExit: pass\n"
        f"print('LOADED', [name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines()[-1] == "LOADED []"


def test_doctor(tmp_path: Path) -> None:
    done = mimo("doctor", cwd=tmp_path, MIMO_HOME=str(tmp_path / "home"))
    assert done.returncode in (0, 1), done.stderr
    assert "profiles that can run here:" in done.stdout
    assert list(tmp_path.iterdir()) == []
    data = json.loads(mimo("doctor", "--json", cwd=tmp_path).stdout)
    found = {finding["what"]: finding["level"] for finding in data["findings"]}
    assert {"torch", "vllm", "deepspeed", "git", "bubblewrap", "docker", "disk", "locks", "sqlite"} <= set(
        found
    )
    assert "smoke" in data["profiles"]


def test_doctor_ends_with_69_when_nothing_can_run(tmp_path: Path) -> None:
    done = mimo("doctor", cwd=tmp_path, PATH=str(tmp_path))
    assert done.returncode == 69
    assert "LACK  git: git not found" in done.stdout
    assert (
        "LACK  bubblewrap: no box can be opened: bubblewrap is not installed\n      -> as root: make system"
        in done.stdout
    )
    assert "profiles that can run here: none" in done.stdout
    assert "error: nothing can run on this machine" in done.stderr
