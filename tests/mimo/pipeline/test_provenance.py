"""Where a run came from: a clean tree, a dirty one, none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mimo.pipeline.provenance import provenance


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    def git(*args: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *identity, *args], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-b", "main")
    (tmp_path / "r.yaml").write_text("a: 1\n")
    git("add", ".")
    git("commit", "-m", "first")
    return tmp_path


def test_a_clean_tree(tree: Path) -> None:
    facts = provenance(tree)
    assert len(str(facts["commit"])) == 40
    assert (facts["branch"], facts["dirty"], facts["diff"]) == ("main", False, "")


def test_a_dirty_tree_without_its_secrets(tree: Path) -> None:
    (tree / "r.yaml").write_text("a: hunter2\n")
    facts = provenance(tree, lambda text: text.replace("hunter2", "*"))
    assert facts["dirty"] is True
    assert "+a: *" in str(facts["diff"])


def test_no_tree_and_a_tree_without_a_commit_are_unknown(tmp_path: Path) -> None:
    assert "InvalidGitRepositoryError" in str(provenance(tmp_path)["unknown"])
    subprocess.run(["git", "init"], cwd=tmp_path, check=True, capture_output=True)
    assert list(provenance(tmp_path)) == ["unknown"]
