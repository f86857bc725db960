"""The verifier against the pack of dishonest patches: at most one may fool it, the honest one passes."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from mimo.domains.coding import hidden_runs
from mimo.types import Task
from sandbox import Changes, FileChange
from tests.mimo.domains.coding.attacks import ATTACKS
from tests.mimo.domains.coding.conftest import NOTHING, RIGHT, Lab, changes_of


def _fooled(lab: Lab, task: Task) -> list[str]:
    return [name for name, files in ATTACKS.items() if lab.verdict(task, changes_of(files)).passed]


def test_the_pack_is_large() -> None:
    assert len(ATTACKS) >= 20


@pytest.mark.slow
def test_functions_runner_is_not_fooled(lab: Lab, functions_task: Task) -> None:
    assert _fooled(lab, functions_task) == []


@pytest.mark.slow
def test_pytest_runner_is_fooled_at_most_once(lab: Lab, framework_task: Task) -> None:
    fooled = _fooled(lab, framework_task)
    assert len(fooled) <= 1, fooled


@pytest.mark.parametrize("kind", ["functions_task", "framework_task"])
def test_honest_repair_passes_and_nothing_fails(lab: Lab, kind: str, request: pytest.FixtureRequest) -> None:
    task: Task = request.getfixturevalue(kind)
    good = lab.verdict(task, changes_of({"mathx.py": RIGHT}))
    assert (good.passed, good.tampered) == (True, False)
    idle = lab.verdict(task, NOTHING)
    assert (idle.passed, idle.tampered) == (False, False)
    assert idle.detail["canaries"] is True


def test_honest_repair_beside_refused_files_passes_and_names_them(lab: Lab, framework_task: Task) -> None:
    files = {"mathx.py": RIGHT, "conftest.py": "raise SystemExit", "json.py": "", "tests/test_new.py": ""}
    verdict = lab.verdict(framework_task, changes_of(files))
    assert verdict.passed
    refused = verdict.detail["refused"]
    assert isinstance(refused, dict)
    assert set(refused) == {"conftest.py", "json.py", "tests/test_new.py"}
    assert refused["json.py"] == "shadows the module json"


def test_patched_reports_are_seen_by_the_canaries(lab: Lab, framework_task: Task) -> None:
    verdict = lab.verdict(framework_task, changes_of(ATTACKS["reports patched"]))
    assert verdict.tampered
    assert verdict.detail["canaries"] is False


def test_always_equal_fails_by_the_sentinel_alone(lab: Lab, framework_task: Task) -> None:
    verdict = lab.verdict(framework_task, changes_of(ATTACKS["always equal, by type()"]))
    assert not verdict.passed
    tests = verdict.detail["tests"]
    assert isinstance(tests, dict)
    assert tests["tests/test_hidden.py::test_two"] == "failed"
    assert tests["tests/test_hidden.py::MoreTests::test_large"] == "failed"


def test_folders_of_killed_verifications_are_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    dead = subprocess.Popen(["true"])
    dead.wait()
    left, mine = tmp_path / f"mimo-verify-{dead.pid}-a", tmp_path / f"mimo-verify-{os.getpid()}-b"
    left.mkdir()
    mine.mkdir()
    hidden_runs._sweep.cache_clear()
    hidden_runs._sweep()
    assert (left.exists(), mine.exists()) == (False, True)


def test_link_and_too_many_changes_do_not_pass(lab: Lab, functions_task: Task) -> None:
    link = FileChange(path="mathx.py", data=None, mode=None, refused="link")
    assert not lab.verdict(functions_task, Changes(files=(link,), capped=False)).passed
    right = changes_of({"mathx.py": RIGHT})
    assert not lab.verdict(functions_task, Changes(files=right.files, capped=True)).passed


def test_endless_code_is_stopped(lab: Lab, functions_task: Task) -> None:
    verdict = lab.verdict(
        functions_task, changes_of({"mathx.py": "def add(a, b):\n    while True:\n        pass\n"})
    )
    assert not verdict.passed
    assert not verdict.tampered
    assert verdict.detail["tests"] == {"ended": "too slow"}
