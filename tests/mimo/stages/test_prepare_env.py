"""Making the task set: what is the machine's fault rejects no task, and a rejection is tried again."""

from __future__ import annotations

from pathlib import Path

import pytest

from mimo.errors import StageFailed
from mimo.recipe.loader import load_recipe
from mimo.run_dir.attempt import Work
from mimo.stages.prepare_env import PrepareEnv
from mimo.stages.tasks import read_tasks
from sandbox.errors import SandboxUnavailable
from tests.mimo.stages.running import Running

SOLUTION = {"calc.py": "def add(a, b):\n    return a + b\n"}


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    """One user's task folder, its reference not right yet."""
    folder = tmp_path / "tasks" / "calc"
    files = {
        "task.toml": "[verifier]\ntimeout_sec = 20\n",
        "instruction.md": "add() subtracts.\n",
        "environment/repo/calc.py": "def add(a, b):\n    return a - b\n",
        "tests/test_calc.py": "from calc import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n",
        "solution/files/calc.py": "def add(a, b):\n    return a * b\n",
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture
def running(tasks: Path, tmp_path: Path) -> Running:
    source = f"tasks.sources=[{{kind: folder, domain: coding, path: {tasks.parent}, split: train}}]"
    overrides = (source, "prepare_env.reruns=1")
    recipe = load_recipe("pro", profile="smoke", overrides=overrides).model
    return Running(PrepareEnv(), recipe, tmp_path / "work", tmp_path / "cache", {})


def test_a_machine_without_bubblewrap_rejects_no_task(
    running: Running, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for program in Path("/usr/bin").iterdir():
        if program.name != "bwrap":
            (tmp_path / program.name).symlink_to(program)
    with monkeypatch.context() as bare:
        bare.setenv("PATH", str(tmp_path))
        with pytest.raises(SandboxUnavailable, match="bubblewrap is not installed"):
            running.run()
    assert running.counted("task rejected") == 0
    assert not list(running.out.glob("gates/*"))


def test_a_rejected_task_is_made_again_once_it_is_right(running: Running, tasks: Path) -> None:
    for _ in range(2):
        with pytest.raises(StageFailed, match=r"1 of 1 tasks rejected.*no hidden test fails before"):
            running.run()
    assert running.counted("task rejected") == 1
    (tasks / "solution/files/calc.py").write_text(SOLUTION["calc.py"])
    assert running.run().headline == {"tasks": 1.0, "tasks_rejected": 0.0}
    assert len(read_tasks(running.out)) == 1


def test_a_kill_before_the_last_commit_costs_nothing(running: Running, tasks: Path) -> None:
    (tasks / "solution/files/calc.py").write_text(SOLUTION["calc.py"])
    running.run()
    (running.folder / "progress.json").unlink()
    assert running.run().headline["tasks"] == 1.0
    committed = Work(running.folder).committed()
    assert committed is not None
    assert committed.step == 1


def test_a_changed_task_folder_is_another_input(running: Running, tasks: Path) -> None:
    def params() -> object:
        return PrepareEnv().params(running.recipe)

    before = params()
    (tasks / "tests" / "__pycache__").mkdir()
    (tasks / "tests" / "__pycache__" / "test_calc.pyc").write_bytes(b"cache")
    assert params() == before
    (tasks / "solution/files/calc.py").write_text(SOLUTION["calc.py"])
    fixed = params()
    assert fixed != before
    (tasks / "tests" / "test_calc.py").chmod(0o755)
    assert params() != fixed
    assert running.recipe.tasks.sources[0].kind == "folder"
