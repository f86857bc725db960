"""User-made task folders: what is imported, what is refused and why; test.sh tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from mimo.domains.coding.folders import FolderTasks
from mimo.errors import RecipeError
from tests.mimo.domains.coding.conftest import (
    FUNCTIONS_ONLY,
    HIDDEN,
    NOTHING,
    RIGHT,
    Lab,
    changes_of,
    write_folder,
)  # fmt: skip


def _bare(root: Path) -> Path:
    """A folder without our metadata, as another tool would make it."""
    write_folder(root, runner="pytest", tests=HIDDEN, names=[])
    (root / "task.toml").write_text('version = "1.0"\n[verifier]\ntimeout_sec = 25.0\n')
    return root


def test_folder_without_metadata_finds_its_telling_tests(lab: Lab, tmp_path: Path) -> None:
    _bare(tmp_path / "mine" / "add-task")
    source = FolderTasks.of({"kind": "folder", "path": str(tmp_path / "mine"), "split": "heldout"})
    (task_id,) = source.task_ids()
    assert "add" not in task_id
    task = lab.imported(source.build(task_id, tmp_path / "out"))
    assert (task.task_id, task.split, task.family) == (task_id, "heldout", "add-task")
    assert task.verifier.fail_to_pass == (
        "tests/test_hidden.py::MoreTests::test_large",
        "tests/test_hidden.py::test_mixed",
        "tests/test_hidden.py::test_two",
    )
    assert task.verifier.pass_to_pass == ("tests/test_hidden.py::test_zero",)
    assert lab.verdict(task, lab.domain.reference(task, lab.store)).passed


def test_test_sh_decides_with_reward_file_or_exit_code(lab: Lab, tmp_path: Path) -> None:
    root = _bare(tmp_path / "t")
    (root / "tests" / "test.sh").write_text(
        "mkdir -p /logs/verifier\ncd /work\n"
        "if python3 -m pytest -q /tests/test_hidden.py; then reward=1; else reward=0; fi\n"
        "echo $reward > /logs/verifier/reward.txt\n"
    )
    task = lab.imported(root)
    assert task.verifier.expect["runner"] == "script"
    assert lab.verdict(task, changes_of({"mathx.py": RIGHT})).passed
    assert not lab.verdict(task, NOTHING).passed


def test_reference_that_fails_is_refused(lab: Lab, tmp_path: Path) -> None:
    root = _bare(tmp_path / "t")
    (root / "solution/files/mathx.py").write_text("def add(a, b):\n    return a * b\n")
    with pytest.raises(RecipeError, match="no hidden test fails before the reference and passes after it"):
        lab.imported(root)


def test_reference_with_lists_that_fails_is_seen_by_the_gate(lab: Lab, tmp_path: Path) -> None:
    names = ["test_hidden.py::test_two"]
    root = write_folder(tmp_path / "t", runner="functions", tests=FUNCTIONS_ONLY, names=names)
    (root / "solution/files/mathx.py").write_text("def add(a, b):\n    return a * b\n")
    task = lab.imported(root)
    assert not lab.verdict(task, lab.domain.reference(task, lab.store)).passed


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("tests/test_hidden.py", "no tests"),
        ("instruction.md", r"no instruction\.md"),
        ("task.toml", r"no task\.toml"),
    ],
)
def test_incomplete_folders_are_refused(lab: Lab, tmp_path: Path, missing: str, message: str) -> None:
    root = _bare(tmp_path / "t")
    (root / missing).unlink()
    with pytest.raises(RecipeError, match=message):
        lab.imported(root)


def test_links_in_a_task_folder_are_refused(lab: Lab, tmp_path: Path) -> None:
    root = _bare(tmp_path / "t")
    (root / "environment/repo/out").symlink_to("/etc/passwd")
    with pytest.raises(RecipeError, match="only regular files"):
        lab.imported(root)


def test_bad_toml_names_the_place(lab: Lab, tmp_path: Path) -> None:
    root = _bare(tmp_path / "t")
    (root / "task.toml").write_text("version = \n")
    with pytest.raises(RecipeError, match=r"task\.toml: .*line 1"):
        lab.imported(root)


def test_sources_that_hold_no_task(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="does not exist"):
        FolderTasks.of({"kind": "folder", "path": str(tmp_path / "no")})
    with pytest.raises(RecipeError, match="no task folder below it"):
        FolderTasks.of({"kind": "folder", "path": str(tmp_path)})
