"""The three ways to run hidden tests in a box: plain functions, pytest, and a task's own test.sh.

functions: tests and policy code in two processes; values cross as literals. For generated tasks, fast.
pytest: one process, the work tree last on the path, asserts with sentinels, canaries around the tests.
script: `tests/test.sh` as Harbor runs it (exit code and reward file); it has no canaries: the weakest.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from json import dumps
from pathlib import Path

from mimo.domains.base import TaskStore
from mimo.domains.coding.sentinel import with_sentinels
from mimo.errors import RecipeError
from mimo.types import Task
from sandbox.base import ExecResult
from sandbox.scratch import temporary_parent

MOUNT = "/verify"
TOOLS = "/opt/test-tools"
_PREFIX = "mimo-verify-"
MAX_CPU_S = 3
"""CPU seconds of the process under test: a loop without end stops here however busy the machine is."""
MAX_WALL_S = 20.0
"""Wall seconds of one functions run: what sleeps without end stops here."""
_ENV = "env -i PATH=/usr/bin:/bin LANG=C.UTF-8 HOME=/tmp PYTHONHASHSEED=0 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """A command for the box, the host folders it needs, and how its results are told from forgeries."""

    command: str
    mounts: Mapping[str, Path]
    key: str | None = None
    canaries: Mapping[str, str] = field(default_factory=dict)
    """Test id to the outcome it must have."""
    read: Callable[[ExecResult], list[dict[str, str]]] = lambda _: []

    def is_canary(self, name: str) -> bool:
        """Whether the id is one of the canaries or of their files."""
        return any(name.split("::")[0] == canary.split("::")[0] for canary in self.canaries)


@contextmanager
def functions_run(task: Task, store: TaskStore) -> Iterator[Run]:
    """Hidden files go through standard input; only the two programs are mounted."""
    tests = store.private(task) / "tests"
    files = [[path.name, path.read_text()] for path in sorted(tests.glob("test_*.py"))]
    if not files:
        raise RecipeError(f"{tests}: no test_*.py", hint="put hidden tests there")
    first, last = (f"canary_{secrets.token_hex(6)}.py" for _ in range(2))
    canary = "def test_must_fail():\n    assert {0!r} == {1!r}\n"
    files = [
        [first, canary.format(secrets.token_hex(8), "a")],
        *files,
        [last, canary.format("b", secrets.token_hex(8))],
    ]
    key = secrets.token_hex(16)
    plan = {
        "key": key,
        "workdir": task.environment.workdir,
        "timeout_s": max(1.0, min(MAX_WALL_S, task.verifier.timeout_s - 2.0)),
        "cpu_s": MAX_CPU_S,
        "modules": _tree_modules(store.snapshot(task)),
        "files": files,
    }
    with _mount("functions_parent.py", "functions_child.py") as folder:
        yield Run(
            command=_with_input(f"{_ENV} python3 -I -S -B {MOUNT}/functions_parent.py", dumps(plan)),
            mounts={MOUNT: folder},
            key=key,
            canaries={f"{first}::test_must_fail": "failed", f"{last}::test_must_fail": "failed"},
        )


@contextmanager
def pytest_run(task: Task, store: TaskStore) -> Iterator[Run]:
    """Hidden tests with sentinels under /verify/tests, canaries in files that sort first and last."""
    tests, token = store.private(task) / "tests", secrets.token_hex(6)
    key, workdir = secrets.token_hex(16), task.environment.workdir
    with _mount("pytest_run.py", "mimo_sentinel.py") as folder:
        shutil.copytree(tests, folder / "tests")
        for path in (folder / "tests").rglob("*.py"):
            if path.name.startswith("test_") or path.name.endswith("_test.py"):
                path.write_text(with_sentinels(path.read_text(), path.name))
        names = [f"test_{letter}{token}.py" for letter in "az"]
        for name in names:
            (folder / name).write_text(_pytest_canary())
        _readable(folder)
        plan = {
            "key": key,
            "tools": TOOLS,
            "support": MOUNT,
            "paths": [workdir, f"{workdir}/src"],
            "rootdir": MOUNT,
            "tests": [f"{MOUNT}/{names[0]}", f"{MOUNT}/tests", f"{MOUNT}/{names[1]}"],
        }
        command = f"cd {workdir} && {_ENV} python3 -P -B {MOUNT}/pytest_run.py"
        yield Run(
            command=_with_input(command, dumps(plan)),
            mounts={MOUNT: folder, TOOLS: store.root / "tools"},
            key=key,
            canaries={
                f"{name}::{test}": outcome
                for name in names
                for test, outcome in (("test_1", "failed"), ("test_2", "error"))
            },
        )


@contextmanager
def script_run(task: Task, store: TaskStore) -> Iterator[Run]:
    """`tests/test.sh` with the tests at /tests; Harbor's /logs/verifier becomes a folder under /tmp."""
    with _mount() as folder:
        shutil.copytree(store.private(task) / "tests", folder, dirs_exist_ok=True)
        script = folder / "test.sh"
        if not script.is_file():
            raise RecipeError(f"{script.name} is missing in tests/", hint="add it, or test_*.py files")
        script.write_text(script.read_text().replace("/logs/verifier", "/tmp/logs/verifier"))
        _readable(folder)
        mounts = {"/tests": folder}
        tools = store.root / "tools"
        if tools.is_dir():
            mounts[TOOLS] = tools
        token = secrets.token_hex(8)
        command = (
            f"cd {task.environment.workdir} && rm -rf /tmp/logs && mkdir -p /tmp/logs/verifier && "
            f"{_ENV} PYTHONPATH={TOOLS} PYTHONDONTWRITEBYTECODE=1 bash /tests/test.sh; code=$?; "
            f'echo; echo "{token} $code $(head -c 20 /tmp/logs/verifier/reward.txt 2>/dev/null)"'
        )
        yield Run(command=command, mounts=mounts, read=lambda result: _script_results(result, token))


def _script_results(result: ExecResult, token: str) -> list[dict[str, str]]:
    rows = [line.split() for line in result.output.split("\n") if line.startswith(token)]
    return [{"test.sh::run": "passed" if _rewarded(row[1:]) else "failed"} for row in rows]


def _rewarded(words: list[str]) -> bool:
    """Exit code 0 and, where a reward was written, a reward of 1 or more."""
    try:
        return words[0] == "0" and (len(words) < 2 or float(words[1]) >= 1.0)
    except ValueError:
        return False


def _pytest_canary() -> str:
    left, right = secrets.token_hex(8), secrets.token_hex(8)
    return (
        "import pytest\n\n\n@pytest.fixture\ndef broken():\n    raise RuntimeError\n\n\n"
        f"def test_1():\n    assert {left!r} == {right!r}\n\n\ndef test_2(broken):\n    pass\n"
    )


def _tree_modules(base: Path) -> list[str]:
    return sorted(
        path.name.removesuffix(".py")
        for path in base.iterdir()
        if path.suffix == ".py" or (path.is_dir() and not path.name.startswith("."))
    )


def _with_input(command: str, text: str) -> str:
    """The command with `text` on standard input, under a delimiter nobody can guess."""
    end = f"END{secrets.token_hex(8)}"
    return f"{command} <<'{end}'\n{text}\n{end}"


@contextmanager
def _mount(*programs: str) -> Iterator[Path]:
    """A temporary folder with some of our boxed programs, readable by the box's user."""
    _sweep()
    with tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-", dir=temporary_parent()) as name:
        folder = Path(name)
        boxed = resources.files("mimo.domains.coding.boxed")
        for program in programs:
            (folder / program).write_bytes(boxed.joinpath(program).read_bytes())
        _readable(folder)
        yield folder


@cache
def _sweep() -> None:
    """Remove what a killed process of ours left, once a process."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        pid = path.name.removeprefix(_PREFIX).partition("-")[0]
        if not Path("/proc", pid).exists() and path.stat().st_uid == os.geteuid():
            shutil.rmtree(path, ignore_errors=True)


def _readable(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
