"""`mimo import`: the command's text, JSON and exit codes; what it makes passes prepare-env."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from commands.cli import cli
from mimo.errors import RecipeError
from tests.mimo.domains.coding.source_repository import made_source
from tests.mimo.domains.coding.test_imports import INNER, foreign
from tests.mimo.pipeline.conftest import ROOT


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIMO_HOME", str(tmp_path / "home"))


def call(*args: str) -> Result:
    return CliRunner().invoke(cli, ["import", *args])


def test_the_exit_code_tells_and_reasons_are_shown(tmp_path: Path) -> None:
    source = made_source(tmp_path / "clones")
    file = source.write(tmp_path / "r.jsonl", {}, {"instance_id": "b", "repo": "no/repo"})
    words = ("swebench", str(file), "--repos", str(source.clones), "--out", str(tmp_path / "out"))
    shown = call(*words)
    assert shown.exit_code == 1
    assert "acme__calc-1: imported\n  note: 1 symbolic links" in shown.output
    assert "b: left out: no clone of no/repo in" in shown.output
    assert "2 tasks: 1 imported, 1 left out; in" in shown.output
    told = json.loads(call(*words, "--json").output)
    assert told["counts"] == {"there": 1, "left out": 1}
    source.write(file, {})
    assert call(*words).exit_code == 0


def test_wrong_arguments_are_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "f.jsonl").write_text("{}")
    for words, said in (
        (("swebench", str(tmp_path / "f.jsonl"), "--repos", str(tmp_path / "no")), "no such folder"),
        (("swebench", str(tmp_path / "no.jsonl"), "--repos", str(tmp_path)), "no.jsonl"),
        (("harbor", str(tmp_path / "no")), "no folder"),
        (("harbor", str(tmp_path)), "holds no task.toml"),
    ):
        error = call(*words, "--out", str(tmp_path / "out")).exception
        assert isinstance(error, RecipeError)
        assert said in error.message


@pytest.mark.slow
def test_imported_tasks_pass_prepare_env(tmp_path: Path) -> None:
    source = made_source(tmp_path / "clones")
    file = source.write(tmp_path / "r.jsonl", {}, {**INNER, "instance_id": "inner"})
    out = str(tmp_path / "out")
    assert call("swebench", str(file), "--repos", str(source.clones), "--out", out).exit_code == 0
    foreign(tmp_path / "in" / "add")
    assert call("harbor", str(tmp_path / "in"), "--out", out).exit_code == 0
    recipe = tmp_path / "r.yaml"
    recipe.write_text(
        "schema: 1\nextends: pro\nname: mine\nprofiles: {smoke: {tasks: {sources: "
        f"[{{kind: folder, domain: coding, path: {out}, split: heldout}}]}}}}}}\n"
    )
    ran = subprocess.run(
        [sys.executable, "-m", "mimo", "run", str(recipe), "--profile", "smoke", "--until", "prepare-env",
         "--set", "runtime.tracking_uri=none", "--set", "prepare_env.reruns=1"],
        cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (made,) = (tmp_path / "home" / "store" / "prepare-env").glob("*/tasks.jsonl")
    tasks = [json.loads(line) for line in made.read_text().splitlines()]
    assert [(task["family"], task["split"]) for task in tasks] == [
        ("calc", "heldout"),
        ("org/add", "heldout"),
        ("calc", "heldout"),
    ]
    assert (made.parent / "rejects.jsonl").read_text() == ""
