"""Making the task set: the machine's and the network's faults reject no task; rejections are tried again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mimo.errors import FetchFailed, StageFailed, WrongSource
from mimo.recipe.loader import load_recipe
from mimo.run_dir.attempt import Work
from mimo.stages import prepare_env
from mimo.stages.prepare_env import PrepareEnv
from mimo.stages.tasks import read_tasks
from sandbox.errors import SandboxUnavailable
from tests.mimo.domains.coding.test_pypi_pair import NEW, OLD, archive
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


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the boxes' root file system is made once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def running(tasks: Path, tmp_path: Path, cache: Path) -> Running:
    source = f"tasks.sources=[{{kind: folder, domain: coding, path: {tasks.parent}, split: train}}]"
    overrides = (source, "prepare_env.reruns=1")
    recipe = load_recipe("pro", profile="smoke", overrides=overrides).model
    return Running(PrepareEnv(), recipe, tmp_path / "work", cache, {})


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


def test_a_test_that_does_not_exist_is_named(running: Running, tasks: Path) -> None:
    (tasks / "solution/files/calc.py").write_text(SOLUTION["calc.py"])
    listed = ("tests/test_calc.py::test_ad", "tests/test_calc.py::test_add")
    with open(tasks / "task.toml", "a", encoding="utf-8") as file:
        file.write(f"[metadata.mimo]\nfail_to_pass = {json.dumps(listed)}\n")
    with pytest.raises(StageFailed, match=rf"no test of that name ran: {listed[0]} \(1 of 2\)"):
        running.run()


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


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The only index that pip knows, with two releases; their hashes by version."""
    folder = tmp_path / "index" / "adder"
    hashes = {
        version: archive(folder / f"adder-{version}.tar.gz", files)
        for version, files in (("1.0", OLD), ("1.1", NEW))
    }
    links = [f'<a href="adder-{version}.tar.gz">adder-{version}.tar.gz</a>' for version in hashes]
    (folder / "index.html").write_text("\n".join(links))
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "index").as_uri())
    return hashes


def with_pair(running: Running, tasks: Path, sha256_old: str, sha256_new: str) -> Running:
    """The user's folder and a pair of releases."""
    (tasks / "solution/files/calc.py").write_text(SOLUTION["calc.py"])
    pair = "{kind: pypi-pair, domain: coding, package: adder, old: '1.0', new: '1.1', split: heldout, "
    pair += f"sha256_old: '{sha256_old}', sha256_new: '{sha256_new}'}}"
    folder = f"{{kind: folder, domain: coding, path: {tasks.parent}, split: train}}"
    overrides = (
        f"tasks.sources=[{pair}, {folder}]",
        "prepare_env.reruns=1",
        "runtime.fetch_attempts=2",
        "runtime.prepare_concurrency=1",
    )
    running.recipe = load_recipe("pro", profile="smoke", overrides=overrides).model
    return running


def test_an_index_out_of_reach_fails_the_stage_and_rejects_nothing(
    running: Running, tasks: Path, index: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare_env, "FETCH_PAUSE_S", 0.0)
    with_pair(running, tasks, index["1.0"], index["1.1"])
    with monkeypatch.context() as away:
        away.setenv("PIP_INDEX_URL", "http://user:secret@127.0.0.1:9/simple")
        with pytest.raises(
            FetchFailed, match=r"1 of 2 tasks .* \(tried 2 times;.*refused.*is kept"
        ) as failed:
            running.run()
    assert "secret" not in f"{failed.value.message} {failed.value.hint}"
    assert "same command again" in str(failed.value.hint)
    assert [running.counted(what) for what in ("download tried again", "task rejected")] == [1, 0]
    assert not (running.out / "tasks.jsonl").exists()
    (kept,) = running.out.glob("gates/*")
    made = kept.stat().st_mtime_ns
    assert running.run().headline == {"tasks": 2.0, "tasks_rejected": 0.0}
    assert kept.stat().st_mtime_ns == made


@pytest.mark.parametrize(
    ("changed", "said"), [("hash", "has sha256 .*, the recipe says 0000"), ("release", "no source archive")]
)
def test_a_source_that_is_not_what_the_recipe_says_fails_the_stage(
    running: Running, tasks: Path, index: dict[str, str], tmp_path: Path, changed: str, said: str
) -> None:
    with_pair(running, tasks, "0" * 64 if changed == "hash" else index["1.0"], index["1.1"])
    if changed == "release":
        (tmp_path / "index" / "adder" / "index.html").write_text("nothing here")
    with pytest.raises(WrongSource, match=said):
        running.run()
    assert running.counted("task rejected") == running.counted("download tried again") == 0
    assert not (running.out / "tasks.jsonl").exists()
