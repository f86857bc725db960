"""The verdict on a rollout: the input file alone, run in a fresh box on the pristine program.

1. Of the policy's changes only a regular `input.txt` is carried over; all others are left out and listed.
2. The program and the sources in the fresh box are those of prepare-env; the policy's box is dead.
3. Our runner starts the program with a log folder of a random name, a random exit code and nothing of the
   program's own output; it signs what it saw with a key made for this run.
4. Passed: exactly one log, of that process, with that exit code, whose type, function and file are the
   recorded ones. A result that is not signed, or comes twice, is `tampered`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import resources
from pathlib import Path
from typing import cast

from mimo.domains.base import BoxFactory, TaskStore
from mimo.domains.cyber.report import MAX_REPORT_BYTES, NoReport, Report, read_report
from mimo.domains.cyber.runtime import (
    ASAN_OPTIONS,
    INPUT,
    MAX_INPUT_BYTES,
    PROGRAM,
    STACK_BYTES,
    UBSAN_OPTIONS,
    options,
)
from mimo.types import Json, Task, Verdict
from sandbox.base import Changes, Sandbox
from sandbox.errors import SandboxError
from sandbox.scratch import temporary_parent

MOUNT = "/verify"
RUNNER = "mimo.domains.cyber.boxed.run_program"
"""Named in full, so that it is part of a stage's code digest."""
MAX_CPU_S = 5
"""CPU seconds of one run: a program that an input keeps busy shows no report."""
MAX_WALL_S = 20.0
_PREFIX = "mimo-verify-"


def verify_input(task: Task, changes: Changes, store: TaskStore, open_box: BoxFactory) -> Verdict:
    """The verdict; `detail` has `refused`, `tests`, `reason`, and the `report` that was seen.

    Raises:
        SandboxError: no box could be opened (the machine's fault, not the policy's).
    """
    data, refused, problem = _input(changes)
    detail: dict[str, Json] = {"refused": dict[str, Json](refused)}
    if problem is not None:
        return _failed(task, detail, problem)
    key, code = secrets.token_hex(16), secrets.randbelow(100) + 20
    with _runner() as folder, open_box(store.snapshot(task), {MOUNT: folder}) as box:
        try:
            if data is not None:
                box.write(f"{task.environment.workdir}/{INPUT}", data)
        except SandboxError as error:
            return _failed(task, detail, f"the input cannot be written: {str(error)[:200]}")
        results, reason = _run(task, box, key, code)
    if reason is not None:
        return _failed(task, detail, reason)
    if len(results) != 1:
        return _failed(task, detail, f"{len(results)} results", tampered=len(results) > 1)
    return _judged(task, detail, results[0], code)


def _input(changes: Changes) -> tuple[bytes | None, dict[str, str], str | None]:
    """The input's new content (None: as it was), path to reason of all other changes, and what is wrong."""
    refused = {
        change.path: change.refused or "not the input" for change in changes.files if change.path != INPUT
    }
    if changes.capped:
        return None, refused, "too many changes"
    mine = [change for change in changes.files if change.path == INPUT]
    if not mine:
        inside = any(change.path.startswith(f"{INPUT}/") for change in changes.files)
        return None, refused, f"{INPUT} is no file" if inside else None
    if mine[0].data is None:
        return None, refused, f"{INPUT}: {mine[0].refused or 'removed'}"
    if len(mine[0].data) > MAX_INPUT_BYTES:
        return None, refused, f"{INPUT} has {len(mine[0].data)} bytes, more than {MAX_INPUT_BYTES}"
    return mine[0].data, refused, None


def _run(task: Task, box: Sandbox, key: str, code: int) -> tuple[list[dict[str, Json]], str | None]:
    plan = {
        "key": key,
        "argv": [f"{task.environment.workdir}/{PROGRAM}", INPUT],
        "workdir": task.environment.workdir,
        "environment": {
            "ASAN_OPTIONS": options(ASAN_OPTIONS, exitcode=str(code), log_path="@log"),
            "UBSAN_OPTIONS": options(UBSAN_OPTIONS, exitcode=str(code), log_path="@log"),
        },
        "stack_bytes": STACK_BYTES,
        "cpu_s": MAX_CPU_S,
        "wall_s": max(1.0, min(MAX_WALL_S, task.verifier.timeout_s - 2.0)),
        "max_bytes": MAX_REPORT_BYTES,
    }
    end = f"END{secrets.token_hex(8)}"
    command = f"python3 -I -S -B {MOUNT}/run_program.py <<'{end}'\n{json.dumps(plan)}\n{end}"
    output = box.exec(command, timeout_s=task.verifier.timeout_s, max_output_bytes=1_000_000)
    box.freeze()
    if output.timed_out or output.limit is not None:
        return [], f"{output.limit} limit" if output.limit else "timeout"
    return _signed(output.output, key), None


def _judged(task: Task, detail: dict[str, Json], result: Mapping[str, Json], code: int) -> Verdict:
    """The verdict from the runner's signed result."""
    detail |= {"exit_code": result["code"], "fixed_layout": result["fixed_layout"]}
    if result["timed_out"]:
        return _failed(task, detail, "timeout")
    logs = cast("dict[str, str]", result["reports"])
    if not logs:
        return _failed(task, detail, "no report")
    pid = int(str(result["pid"]))
    if list(logs) != [f"report.{pid}"]:
        return _failed(task, detail, f"unexpected logs: {len(logs)}", tampered=True)
    expect = task.verifier.expect
    try:
        data = base64.b64decode(logs[f"report.{pid}"], validate=True)
        sources = cast("list[str]", expect["sources"])
        report = read_report(data, pid=pid, sources=sources, workdir=task.environment.workdir)
    except (NoReport, binascii.Error) as error:
        return _failed(task, detail, str(error)[:200])
    detail["report"] = {
        "type": report.type,
        "function": report.function,
        "file": report.file,
        "line": report.line,
    }
    if result["code"] != code:
        return _failed(task, detail, "the program did not end with its report")
    if not _matches(report, expect):
        return _failed(task, detail, "another report than the one asked for")
    return Verdict(passed=True, tampered=False, detail={**detail, "tests": {_name(task): "passed"}})


def _matches(report: Report, expect: Mapping[str, Json]) -> bool:
    return (report.type, report.function, report.file) == (expect["type"], expect["function"], expect["file"])


def _failed(task: Task, detail: dict[str, Json], reason: str, *, tampered: bool = False) -> Verdict:
    tests: dict[str, Json] = {_name(task): "failed"}
    return Verdict(passed=False, tampered=tampered, detail={**detail, "tests": tests, "reason": reason})


def _name(task: Task) -> str:
    expect = task.verifier.expect
    return f"{expect['type']} in {expect['function']} ({expect['file']})"


def _signed(output: str, key: str) -> list[dict[str, Json]]:
    """The results in the runner's output that carry the run's key."""
    found = []
    for line in output.split("\n"):
        word, _, rest = line.strip("\r").partition(" ")
        signature, _, body = rest.partition(" ")
        true = hmac.new(key.encode(), body.encode("utf-8", "replace"), hashlib.sha256).hexdigest()
        if word == "MIMO" and hmac.compare_digest(signature.encode("utf-8", "replace"), true.encode()):
            found.append(cast("dict[str, Json]", json.loads(body)))
    return found


@contextmanager
def _runner() -> Iterator[Path]:
    """A temporary folder with our runner, readable by the box's user."""
    _sweep()
    with tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-", dir=temporary_parent()) as name:
        folder = Path(name)
        package, _, module = RUNNER.rpartition(".")
        source = resources.files(package).joinpath(f"{module}.py").read_bytes()
        (folder / "run_program.py").write_bytes(source)
        (folder / "run_program.py").chmod(0o644)
        folder.chmod(0o755)
        yield folder


@cache
def _sweep() -> None:
    """Remove what a killed process of ours left, once a process."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        pid = path.name.removeprefix(_PREFIX).partition("-")[0]
        if not Path("/proc", pid).exists() and path.stat().st_uid == os.geteuid():
            shutil.rmtree(path, ignore_errors=True)
