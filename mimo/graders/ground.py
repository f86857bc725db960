"""What a grader compares a rollout with: the snapshot's files, the visible tests, the reference."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from mimo.types import Task
from sandbox.base import Changes

MAX_FILE_BYTES = 200_000
"""Larger files are not parsed; their lines are counted only."""
MAX_TEST_FILES = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Ground:
    """The task's side of a grading; nothing here was written by a policy.

    `base` maps a path to the snapshot's content (a path that is missing there is not in it), `tests` maps the
    visible test files to their text. `reference` is None where a task has no reference solution.
    """

    task_id: str
    instruction: str
    base: dict[str, bytes]
    tests: dict[str, str]
    reference: Changes | None

    @property
    def related(self) -> frozenset[str]:
        """Files the reference changes, and files of the snapshot that the instruction names."""
        named = {path for path in self.base if path in self.instruction and path not in self.tests}
        changed = set() if self.reference is None else {change.path for change in self.reference.files}
        return frozenset(named | changed)


def ground_of(task: Task, snapshot: Path, reference: Changes | None, touched: Iterable[Changes]) -> Ground:
    """Read what is needed to grade the rollouts whose changes are `touched`."""
    visible = task.verifier.expect.get("visible")
    tests = [str(path) for path in visible] if isinstance(visible, list) else _test_files(snapshot)
    paths = {change.path for changes in touched for change in changes.files} | set(tests)
    if reference is not None:
        paths |= {change.path for change in reference.files}
    found = {path: data for path in sorted(paths) if (data := read_base(snapshot, path)) is not None}
    return Ground(
        task_id=task.task_id,
        instruction=task.instruction,
        base=found,
        tests={path: found[path].decode("utf-8", "replace") for path in tests if path in found},
        reference=reference,
    )


def read_base(snapshot: Path, path: str) -> bytes | None:
    """The file's first `MAX_FILE_BYTES` + 1 bytes; None for what is no plain file inside the snapshot.

    `path` may come from a policy: it never leaves the snapshot, through dots or through links.
    """
    pure = PurePosixPath(path)
    if not path or "\0" in path or pure.is_absolute() or ".." in pure.parts or len(path) > 1000:
        return None
    place = snapshot
    for part in pure.parts:
        place = place / part
        if len(part) > 255 or place.is_symlink():
            return None
    if not place.is_file():
        return None
    with open(place, "rb") as file:
        return file.read(MAX_FILE_BYTES + 1)


def _test_files(snapshot: Path) -> list[str]:
    found = [*snapshot.rglob("test_*.py"), *snapshot.rglob("*_test.py")]
    names = (path.relative_to(snapshot).as_posix() for path in found if ".git" not in path.parts)
    return sorted(names)[:MAX_TEST_FILES]
