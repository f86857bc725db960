"""The agent domain: bring a workspace of files, a database and a local service into a described state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from mimo.domains.agent.expert import can_demonstrate, demonstration
from mimo.domains.agent.source import GeneratedTasks
from mimo.domains.agent.verify import verify_changes
from mimo.domains.base import BoxFactory, OpenSpec, TaskStore, open_local
from mimo.domains.coding.importer import import_task
from mimo.domains.coding.reference import reference_changes
from mimo.harnesses.base import ExpertTurn
from mimo.types import Json, Limits, Task, Verdict
from sandbox.base import Changes


class Agent:
    """Change a workspace as asked and nothing else; checks of its end state decide."""

    name: ClassVar[str] = "agent"

    def list_sources(self, source: Mapping[str, Json]) -> Sequence[str]:
        """The opaque ids of the tasks of a recipe's entry."""
        return GeneratedTasks.of(source).task_ids()

    def build(self, source: Mapping[str, Json], task_id: str, folder: Path) -> Path:
        """Make one task folder; RecipeError names what is wrong with the source."""
        return GeneratedTasks.of(source).build(task_id, folder)

    def import_folder(
        self,
        folder: Path,
        store: TaskStore,
        *,
        limits: Limits,
        history: str,
        cache: Path,
        open_spec: OpenSpec = open_local,
    ) -> Task:
        """Bring a task folder into the store."""
        task = import_task(folder, store, limits=limits, history=history, cache=cache, open_spec=open_spec)
        return replace(task, verifier=replace(task.verifier, kind="checks", protected=(), command=""))

    def verify(self, task: Task, changes: Changes, store: TaskStore, open_box: BoxFactory) -> Verdict:
        """Judge the end state, check by check."""
        return verify_changes(task, changes, store, open_box)

    def reference(self, task: Task, store: TaskStore) -> Changes:
        """The files of the end state that differ."""
        return reference_changes(store.private(task))

    def demonstrates(self, task: Task) -> bool:
        """Generated training tasks only."""
        return can_demonstrate(task)

    def demonstrate(self, task: Task, store: TaskStore, *, harness: str, seed: int) -> Sequence[ExpertTurn]:
        """The scripted expert's turns."""
        return demonstration(task, store, harness=harness, seed=seed)
