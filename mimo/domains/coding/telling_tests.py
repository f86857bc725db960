"""Which hidden tests tell a repair from none: run on the tree as it is and on the tree with the reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from mimo.domains.base import BoxFactory, OpenSpec, TaskStore, open_local
from mimo.domains.coding.reference import reference_changes
from mimo.domains.coding.verify import verify_changes
from mimo.errors import RecipeError
from mimo.types import Task
from sandbox.base import BoxLimits, BoxSpec, Changes, Sandbox
from sandbox.rootfs import ensure_rootfs


def with_telling_tests(task: Task, store: TaskStore, cache: Path, open_spec: OpenSpec = open_local) -> Task:
    """The task with `fail_to_pass` and `pass_to_pass` found by running its hidden tests twice.

    Raises:
        RecipeError: the reference makes no test pass that failed before.
    """
    open_box = _boxes(task, cache, open_spec)
    before = _passing(task, Changes(files=(), capped=False), store, open_box)
    after = _passing(task, reference_changes(store.private(task)), store, open_box)
    if not after - before:
        raise RecipeError(
            f"task {task.task_id}: no hidden test fails before the reference and passes after it",
            hint="the tests do not show what the reference repairs",
        )
    verifier = replace(
        task.verifier,
        fail_to_pass=tuple(sorted(after - before)),
        pass_to_pass=tuple(sorted(after & before)),
    )
    return replace(task, verifier=verifier)


def _passing(task: Task, changes: Changes, store: TaskStore, open_box: BoxFactory) -> set[str]:
    tests = verify_changes(task, changes, store, open_box).detail.get("tests")
    return (
        {name for name, outcome in tests.items() if outcome == "passed"} if isinstance(tests, dict) else set()
    )


def _boxes(task: Task, cache: Path, open_spec: OpenSpec) -> BoxFactory:
    rootfs, limits = ensure_rootfs(cache), task.environment.limits

    def open_box(snapshot: Path, mounts: Mapping[str, Path]) -> Sandbox:
        spec = BoxSpec(
            rootfs=rootfs,
            snapshot=snapshot,
            workdir=task.environment.workdir,
            env=task.environment.env,
            limits=BoxLimits(
                wall_s=max(limits.wall_s, task.verifier.timeout_s + 30.0),
                command_s=limits.command_s,
                memory_mb=limits.memory_mb,
                processes=limits.processes,
                disk_mb=limits.disk_mb,
                output_bytes=limits.output_bytes,
            ),
            readonly=mounts,
        )
        return open_spec(spec)

    return open_box
