"""A store with a few tasks of every kind, and boxes to judge them in; made once for the folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from mimo.domains.base import BoxFactory, TaskStore
from mimo.domains.coding.domain import Coding
from mimo.types import Json, Limits, Task, Verdict
from sandbox import Changes, FileChange, Sandbox
from sandbox.rootfs import ensure_rootfs
from tests.mimo.domains.lab import local_boxes

LIMITS = Limits(
    wall_s=120.0, turn_s=30.0, command_s=20.0, memory_mb=512, processes=64, disk_mb=64, output_bytes=16384
)
NOTHING = Changes(files=(), capped=False)


@dataclass(frozen=True, kw_only=True)
class Lab:
    """The coding domain with a store, a root file system and boxes."""

    domain: Coding
    store: TaskStore
    cache: Path
    rootfs: Path

    def boxes(self, task: Task) -> BoxFactory:
        return local_boxes(self.rootfs, task)

    def open(self, task: Task) -> Sandbox:
        return self.boxes(task)(self.store.snapshot(task), {})

    def verdict(self, task: Task, changes: Changes) -> Verdict:
        return self.domain.verify(task, changes, self.store, self.boxes(task))

    def imported(self, folder: Path) -> Task:
        return self.domain.import_folder(folder, self.store, limits=LIMITS, history="past", cache=self.cache)


def changes_of(files: Mapping[str, str | bytes | None]) -> Changes:
    rows = []
    for path, data in sorted(files.items()):
        raw = data.encode() if isinstance(data, str) else data
        rows.append(FileChange(path=path, data=raw, mode=None if raw is None else 0o644))
    return Changes(files=tuple(rows), capped=False)


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    root = tmp_path_factory.mktemp("coding")
    cache = root / "cache"
    return Lab(domain=Coding(), store=TaskStore(root / "store"), cache=cache, rootfs=ensure_rootfs(cache))


@pytest.fixture(scope="session")
def generated(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[Task]]:
    """Makes imported tasks: `generated(train=3, families=[...], level=1)`."""
    folder = tmp_path_factory.mktemp("folders")

    def make(**source: Json) -> list[Task]:
        entry: dict[str, Json] = {
            "kind": "generated",
            "domain": "coding",
            "seed": 5,
            "train": 0,
            "heldout": 0,
        }
        entry |= source
        return [lab.imported(lab.domain.build(entry, i, folder)) for i in lab.domain.list_sources(entry)]

    return make


WRONG = 'def add(a, b):\n    """Return a plus b."""\n    return a - b\n'
RIGHT = WRONG.replace("a - b", "a + b")
VISIBLE = "from mathx import add\n\n\ndef test_add():\n    assert add(2, 2) == 4\n"
HIDDEN = """\
import unittest

from mathx import add


def test_two():
    assert add(19, 23) == 42


def test_zero():
    assert add(0, 0) == 0


def test_mixed():
    assert add(-71, 4) == -67


class MoreTests(unittest.TestCase):
    def test_large(self):
        self.assertEqual(add(1000, 729), 1729)
"""
FUNCTIONS_ONLY = HIDDEN.split("\n\nclass")[0].replace("import unittest\n\n", "") + "\n"


def write_folder(root: Path, *, runner: str, tests: str, names: list[str]) -> Path:
    """A user's task folder around `add`."""
    files = {
        "task.toml": f'version = "1.0"\n[metadata.mimo]\nrunner = "{runner}"\nfail_to_pass = {names!r}\n'
        'pass_to_pass = []\nvisible = ["test_mathx.py"]\n[verifier]\ntimeout_sec = 25.0\n',
        "instruction.md": "Repair add in mathx.py.\n",
        "environment/repo/mathx.py": WRONG,
        "environment/repo/test_mathx.py": VISIBLE,
        "tests/test_hidden.py": tests,
        "solution/files/mathx.py": RIGHT,
    }
    for path, text in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return root


@pytest.fixture(scope="session")
def functions_task(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Task:
    names = [f"test_hidden.py::test_{name}" for name in ("two", "mixed")]
    root = tmp_path_factory.mktemp("functions")
    return lab.imported(write_folder(root, runner="functions", tests=FUNCTIONS_ONLY, names=names))


@pytest.fixture(scope="session")
def framework_task(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Task:
    names = [f"tests/test_hidden.py::test_{name}" for name in ("two", "mixed")]
    names.append("tests/test_hidden.py::MoreTests::test_large")
    root = tmp_path_factory.mktemp("pytest")
    return lab.imported(write_folder(root, runner="pytest", tests=HIDDEN, names=names))
