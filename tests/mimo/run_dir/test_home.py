"""Where state lives."""

from __future__ import annotations

from pathlib import Path

import pytest

from mimo.errors import MachineLacks
from mimo.run_dir.home import Home, find_home


def test_environment_wins(tmp_path: Path) -> None:
    assert find_home(tmp_path / "r.yaml", {"MIMO_HOME": str(tmp_path / "h")}).root == tmp_path / "h"


def test_git_work_tree_then_the_recipes_folder(tmp_path: Path) -> None:
    folder = tmp_path / "project" / "recipes"
    folder.mkdir(parents=True)
    assert find_home(folder / "r.yaml", {}).root == folder / ".mimo"
    (tmp_path / "project" / ".git").mkdir()
    assert find_home(folder / "r.yaml", {}).root == tmp_path / "project" / ".mimo"


def test_installed_recipes_use_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    installed = tmp_path / "venv" / "lib" / "site-packages" / "recipes" / "pro.yaml"
    assert find_home(installed, {}).root == tmp_path / ".mimo"


def test_create_ignores_itself_in_git(tmp_path: Path) -> None:
    home = Home(tmp_path / "h").create()
    assert (home.root / ".gitignore").read_text() == "*\n"
    assert home.create().store.is_dir()


def test_unwritable_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineLacks, match="cannot write the state folder"):
        Home(tmp_path / "file" / "h").create()
