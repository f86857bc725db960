"""The verdict on a rollout's changes: a pristine tree plus what may be carried over, judged by hidden tests.

1. Changes of protected paths, links, and files that shadow a module are left out (and reported).
2. The rest is written into a fresh box on the task's snapshot; the agent's box is dead by then.
3. Our own runner runs the hidden tests; its result line is signed with a key made for this run.
4. Every fail-to-pass and pass-to-pass id must be reported passed; skipped or missing is not passed.
5. Canaries (tests that must fail, with random names, first and last) must have failed, else `tampered`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import shlex
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import cast

from mimo.domains.base import BoxFactory, TaskStore
from mimo.domains.coding.hidden_runs import Run, functions_run, pytest_run, script_run
from mimo.domains.coding.protected import refusals
from mimo.domains.coding.source_audit import audit_change
from mimo.errors import RecipeError
from mimo.types import Json, Task, Verdict
from sandbox.base import Changes, FileChange, Sandbox
from sandbox.errors import SandboxError

_RUNS: dict[str, Callable[[Task, TaskStore], AbstractContextManager[Run]]] = {
    "functions": functions_run,
    "pytest": pytest_run,
    "script": script_run,
}


def verify_changes(task: Task, changes: Changes, store: TaskStore, open_box: BoxFactory) -> Verdict:
    """The verdict; what went wrong is in `detail` (`tests`, `refused`, `audit`, `reason`).

    Raises:
        SandboxError: no box could be opened (the machine's fault, not the policy's).
        RecipeError: the task names a runner that does not exist.
    """
    name = str(task.verifier.expect.get("runner"))
    if name not in _RUNS:
        raise RecipeError(f"task {task.task_id}: no runner {name!r}", hint=f"known: {', '.join(_RUNS)}")
    base = store.snapshot(task)
    allowed, refused = refusals(changes.files, task.verifier.protected, _modules(base))
    detail: dict[str, Json] = {"refused": dict[str, Json](refused)}
    if changes.capped:
        return Verdict(passed=False, tampered=False, detail={**detail, "reason": "too many changes"})
    routes = sorted({route for change in allowed for route in _audit(base, change)})
    detail["audit"] = list[Json](routes)
    with _RUNS[name](task, store) as run, open_box(base, run.mounts) as box:
        problem = _apply(box, task.environment.workdir, allowed)
        if problem is not None:
            return Verdict(passed=False, tampered=False, detail={**detail, "reason": problem})
        output = box.exec(run.command, timeout_s=task.verifier.timeout_s, max_output_bytes=1_000_000)
        box.freeze()
        if output.timed_out or output.limit is not None:
            reason = f"{output.limit} limit" if output.limit else "timeout"
            return Verdict(passed=False, tampered=False, detail={**detail, "reason": reason})
        results = _signed_results(output.output, run.key) if run.key else run.read(output)
    return _verdict(task, run, results, routes, detail)


def _verdict(
    task: Task, run: Run, results: list[dict[str, str]], routes: Sequence[str], detail: dict[str, Json]
) -> Verdict:
    """The verdict from the result lines that carry the run's key."""
    if len(results) != 1:
        reason = "no result" if not results else "two results"
        tampered = len(results) > 1 or bool(routes)
        return Verdict(passed=False, tampered=tampered, detail={**detail, "reason": reason})
    outcomes = results[0]
    shown = {name: outcome for name, outcome in outcomes.items() if not run.is_canary(name)}
    detail["tests"] = dict[str, Json](sorted(shown.items()))
    wanted = (*task.verifier.fail_to_pass, *task.verifier.pass_to_pass)
    missing = [name for name in wanted if outcomes.get(name) != "passed"]
    claims = not missing if wanted else _all_passed(shown)
    failed_as_they_must = all(outcomes.get(name) == outcome for name, outcome in run.canaries.items())
    detail["canaries"] = failed_as_they_must
    passed_canary = any(outcomes.get(name) == "passed" for name in run.canaries)
    tampered = passed_canary or (claims and not failed_as_they_must) or bool(routes)
    return Verdict(passed=claims and not tampered, tampered=tampered, detail=detail)


def _all_passed(shown: dict[str, str]) -> bool:
    tests = [outcome for name, outcome in shown.items() if "::" in name]
    return bool(tests) and all(outcome in ("passed", "skipped") for outcome in tests) and "passed" in tests


def _apply(box: Sandbox, workdir: str, changes: Sequence[FileChange]) -> str | None:
    """Write the changes into the box; the reason if one cannot be written."""
    gone = [change.path for change in changes if change.data is None]
    root = workdir.rstrip("/")
    try:
        if gone:
            paths = " ".join(shlex.quote(f"{root}/{path}") for path in gone)
            box.exec(f"rm -rf -- {paths}", timeout_s=20)
        for change in changes:
            if change.data is not None:
                box.write(f"{root}/{change.path}", change.data)
    except SandboxError as error:
        return f"a change cannot be applied: {str(error)[:200]}"
    return None


def _signed_results(output: str, key: str) -> list[dict[str, str]]:
    found = []
    for line in output.split("\n"):
        word, _, rest = line.strip("\r").partition(" ")
        signature, _, body = rest.partition(" ")
        if word == "MIMO" and hmac.compare_digest(
            signature.encode("utf-8", "replace"),
            hmac.new(key.encode(), body.encode("utf-8", "replace"), hashlib.sha256).hexdigest().encode(),
        ):
            found.append(cast("dict[str, str]", json.loads(body)))
    return found


def _audit(base: Path, change: FileChange) -> list[str]:
    if change.data is None or not change.path.endswith(".py"):
        return []
    original = base / change.path
    before = original.read_text(errors="replace") if original.is_file() else ""
    return audit_change(before, change.data.decode("utf-8", "replace"))


def _modules(base: Path) -> frozenset[str]:
    """Top-level module names the pristine tree already has (also below `src`)."""
    places = [base, base / "src"]
    return frozenset(
        path.name.split(".")[0] for place in places if place.is_dir() for path in place.iterdir()
    )
