"""The verdict on a workspace: the changes a policy left, judged check by check; no code of the policy's runs.

Files are compared as bytes. A database that has changed is read in a fresh box that holds nothing else of the
policy's, by our own reader; what comes back is data. So neither a changed tool nor a changed schema, trigger
or view can say anything about the state. All checks must pass.
"""

from __future__ import annotations

import json
import secrets
import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from mimo.domains.agent.checks import FILE, Database, EndState, database_checks, file_checks
from mimo.domains.agent.world import DATABASE, program, schema_rows
from mimo.domains.base import BoxFactory, TaskStore
from mimo.records import from_json
from mimo.types import Json, Task, Verdict
from sandbox.base import Changes
from sandbox.errors import SandboxLimit
from sandbox.scratch import temporary_parent

MOUNT = "/verify"
READER = "mimo.domains.agent.boxed.read_db"
SUBJECT = "/tmp/subject.db"
"""Where the database lies in the box that reads it: outside the workspace, alone."""


def verify_changes(task: Task, changes: Changes, store: TaskStore, open_box: BoxFactory) -> Verdict:
    """The verdict; `detail` has every check under `tests`, and `refused`, `reason` where there is something.

    Raises:
        SandboxError: no box could be opened (the machine's fault, not the policy's).
    """
    wanted = end_state_of(task, store)
    detail: dict[str, Json] = {
        "refused": {item.path: item.refused for item in changes.files if item.refused is not None}
    }
    if changes.capped:
        return Verdict(passed=False, tampered=False, detail={**detail, "reason": "too many changes"})
    base = store.snapshot(task)
    results = file_checks(wanted, _contents(base), changes.files)
    if wanted.statements:
        found = _database(task, changes, base, wanted, open_box)
        results |= database_checks(wanted, found)
        if found is None or found.error is not None:
            detail["reason"] = "the database is gone" if found is None else found.error
    detail["tests"] = {name: "passed" if good else "failed" for name, good in sorted(results.items())}
    every = (*task.verifier.fail_to_pass, *task.verifier.pass_to_pass)
    passed = all(results.get(name, False) for name in every) and bool(every)
    return Verdict(passed=passed, tampered=False, detail=detail)


def end_state_of(task: Task, store: TaskStore) -> EndState:
    """The end state in the task's private files."""
    return from_json(EndState, json.loads((store.private(task) / FILE).read_bytes()))


def _contents(base: Path) -> dict[str, bytes]:
    return {
        path.relative_to(base).as_posix(): path.read_bytes()
        for path in sorted(base.rglob("*"))
        if path.is_file() and ".git" not in path.relative_to(base).parts[:1]
    }


def _database(
    task: Task, changes: Changes, base: Path, wanted: EndState, open_box: BoxFactory
) -> Database | None:
    """The database as the box's reader finds it; unchanged, it is as the task says. None: it is gone."""
    changed = next((item for item in changes.files if item.path == DATABASE), None)
    if changed is None:
        return Database(sound=True, schema=schema_rows(wanted.statements), rows=wanted.before)
    if changed.data is None:
        return None
    key = secrets.token_hex(16)
    plan = {"path": SUBJECT, "schema": schema_rows(wanted.statements), "key": key}
    with tempfile.TemporaryDirectory(prefix="mimo-verify-", dir=temporary_parent()) as folder:
        mount = Path(folder)
        mount.chmod(0o755)
        (mount / "read_db.py").write_bytes(program(READER))
        (mount / "read_db.py").chmod(0o644)
        reading = f"env -i PATH=/usr/bin:/bin python3 -I -S -B {MOUNT}/read_db.py"
        command = f"printf %s {shlex.quote(json.dumps(plan))} | {reading}"
        with open_box(base, {MOUNT: mount}) as box:
            box.write(SUBJECT, changed.data)
            try:
                output = box.exec(command, timeout_s=task.verifier.timeout_s, max_output_bytes=1_000_000)
            except SandboxLimit as error:
                return _unreadable(f"the reader hit a limit: {error.kind}")
            box.freeze()
    return _answer(output.output, key)


def _answer(output: str, key: str) -> Database:
    for line in output.splitlines():
        word, _, body = line.partition(" ")
        if secrets.compare_digest(word.encode("utf-8", "replace"), key.encode()):
            found = cast("Mapping[str, Json]", json.loads(body))
            if "error" in found:
                return _unreadable(str(found["error"]))
            return Database(
                sound=bool(found["sound"]),
                schema=cast("list[Json]", found["schema"]),
                rows=cast("dict[str, list[Json]]", found["rows"]),
            )
    return _unreadable("the reader gave no answer")


def _unreadable(why: str) -> Database:
    return Database(schema=[], rows={}, error=why[:300])
