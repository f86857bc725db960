"""`mimo init`: a project whose recipe is whole and whose first task passes the gates; nothing is replaced."""

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
from mimo.recipe.overview import load_all
from mimo.recipe.project import project_name
from tests.mimo.pipeline.conftest import ROOT


def call(*args: str) -> Result:
    return CliRunner().invoke(cli, ["init", *args])


def test_the_recipe_is_whole_in_every_profile(tmp_path: Path) -> None:
    shown = call(str(tmp_path / "my project"), "--json")
    assert shown.exit_code == 0, shown.output
    told = json.loads(shown.output)
    resolved = load_all(Path(told["recipe"]), profile=None, overrides=())
    assert {one.profile for one in resolved} >= {"laptop", "smoke", "single", "node", "cluster"}
    for one in resolved:
        assert one.model.name == "my-project"
        own = one.model.tasks.sources[0]
        assert own.kind == "folder"
        assert Path(own.path) == tmp_path / "my project" / "tasks"
    assert (tmp_path / "my project" / ".gitignore").read_text().startswith(".mimo/\n")
    readme = (tmp_path / "my project" / "README.md").read_text()
    assert readme.startswith("# my-project\n")
    assert len(readme.splitlines()) == 5


def test_nothing_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("mine")
    (tmp_path / "README.md").write_text("mine")
    error = call(str(tmp_path)).exception
    assert isinstance(error, RecipeError)
    assert error.message == f"{tmp_path / 'README.md'} is there already; nothing was written"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.md", "kept.txt"]
    (tmp_path / "README.md").unlink()
    assert call(str(tmp_path)).exit_code == 0
    assert (tmp_path / "kept.txt").read_text() == "mine"
    error = call(str(tmp_path / "kept.txt" / "below")).exception
    assert isinstance(error, RecipeError)
    assert "kept.txt" in error.message


@pytest.mark.parametrize(
    ("folder", "name"), [("a b/c", "c"), ("_x!", "x"), ("ÄÖ", "project"), ("-.", "project")]
)
def test_names_are_what_a_recipe_may_be_called(folder: str, name: str) -> None:
    assert project_name(Path(folder)) == name


@pytest.mark.slow
def test_the_first_task_passes_the_gates(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    assert call(str(folder)).exit_code == 0
    tasks = f"tasks.sources=[{{kind: folder, domain: coding, path: {folder / 'tasks'}, split: train}}]"
    ran = subprocess.run(
        [sys.executable, "-m", "mimo", "run", str(folder / "recipe.yaml"), "--profile", "smoke",
         "--until", "prepare-env", "--set", tasks, "--set", "runtime.tracking_uri=none"],
        cwd=ROOT, env={**os.environ, "MIMO_HOME": str(tmp_path / "home")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (made,) = (tmp_path / "home" / "store" / "prepare-env").glob("*/tasks.jsonl")
    task = json.loads(made.read_text())
    assert task["family"] == "first-task"
    assert len(task["verifier"]["fail_to_pass"]) == 2
    assert len(task["verifier"]["pass_to_pass"]) == 2
