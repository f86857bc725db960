"""The coding domain: generated repairs, real repairs between releases, and the user's own task folders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Protocol, cast

from mimo.domains.base import BoxFactory, Fault, TaskStore
from mimo.domains.coding.correction import corrected, possible_faults
from mimo.domains.coding.expert import can_demonstrate, demonstration
from mimo.domains.coding.folders import FolderTasks
from mimo.domains.coding.generated.source import GeneratedTasks
from mimo.domains.coding.importer import import_task
from mimo.domains.coding.pypi_pair import PypiPair
from mimo.domains.coding.reference import reference_changes
from mimo.domains.coding.verify import verify_changes
from mimo.errors import RecipeError
from mimo.harnesses.base import ExpertTurn
from mimo.types import Json, Limits, Task, Verdict
from sandbox.base import Changes


class TaskMaker(Protocol):
    """One kind of source."""

    def task_ids(self) -> Sequence[str]:
        """The opaque ids of its tasks, in order."""
        ...

    def build(self, task_id: str, folder: Path) -> Path:
        """The task folder `folder/<task_id>`."""
        ...


_KINDS: dict[str, Callable[[Mapping[str, Json]], TaskMaker]] = {
    "generated": GeneratedTasks.of,
    "pypi-pair": PypiPair.of,
    "folder": FolderTasks.of,
}


class Coding:
    """Repair a repository; hidden tests decide."""

    name: ClassVar[str] = "coding"

    def list_sources(self, source: Mapping[str, Json]) -> Sequence[str]:
        """The opaque ids of the tasks of a recipe's entry."""
        return _maker(source).task_ids()

    def build(self, source: Mapping[str, Json], task_id: str, folder: Path) -> Path:
        """Make one task folder; RecipeError names what is wrong with the source."""
        return _maker(source).build(task_id, folder)

    def import_folder(
        self, folder: Path, store: TaskStore, *, limits: Limits, history: str, cache: Path
    ) -> Task:
        """Bring a task folder into the store."""
        return import_task(folder, store, limits=limits, history=history, cache=cache)

    def verify(self, task: Task, changes: Changes, store: TaskStore, open_box: BoxFactory) -> Verdict:
        """Judge changes with the hidden tests in a fresh box."""
        return verify_changes(task, changes, store, open_box)

    def reference(self, task: Task, store: TaskStore) -> Changes:
        """The reference solution."""
        return reference_changes(store.private(task))

    def demonstrates(self, task: Task) -> bool:
        """Generated training tasks only."""
        return can_demonstrate(task)

    def demonstrate(self, task: Task, store: TaskStore, *, harness: str, seed: int) -> Sequence[ExpertTurn]:
        """The scripted expert's turns."""
        return demonstration(task, store, harness=harness, seed=seed)

    def faults(self, task: Task, store: TaskStore, *, harness: str, seed: int) -> Sequence[Fault]:
        """Mistakes of the scripted expert."""
        return possible_faults(task, store, harness=harness, seed=seed)

    def correct(
        self, task: Task, store: TaskStore, *, harness: str, fault: Fault, max_turns: int
    ) -> Sequence[ExpertTurn]:
        """Faulty turns and the scripted expert's correction of them."""
        return corrected(task, store, harness=harness, fault=fault, max_turns=max_turns)


def _maker(source: Mapping[str, Json]) -> TaskMaker:
    kind = cast(str, source["kind"])
    if kind not in _KINDS:
        raise RecipeError(
            f"the coding domain has no task source {kind!r}", hint=f"known: {', '.join(_KINDS)}"
        )
    return _KINDS[kind](source)
