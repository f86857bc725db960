"""The cyber domain: programs of ours with a planted bug; an input must make the sanitizer report that bug."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from mimo.domains.base import BoxFactory, OpenSpec, TaskStore, open_local
from mimo.domains.cyber.expert import can_demonstrate, demonstration
from mimo.domains.cyber.generated.source import GeneratedPrograms
from mimo.domains.cyber.importer import import_program
from mimo.domains.cyber.runtime import INPUT
from mimo.domains.cyber.toolchain import require_toolchain
from mimo.domains.cyber.verify import verify_input
from mimo.errors import RecipeError
from mimo.harnesses.base import ExpertTurn
from mimo.types import Json, Limits, Task, Verdict
from sandbox.base import Changes, FileChange


class Cyber:
    """Reproduce a planted memory error or undefined behaviour; the sanitizer's report decides."""

    name: ClassVar[str] = "cyber"

    def list_sources(self, source: Mapping[str, Json]) -> Sequence[str]:
        """The opaque ids of the tasks of a recipe's entry.

        Raises:
            MachineLacks: nothing can be built here; said before any task of the run is made.
        """
        maker = _maker(source)
        require_toolchain()
        return maker.task_ids()

    def build(self, source: Mapping[str, Json], task_id: str, folder: Path) -> Path:
        """Make one task folder; RecipeError names what is wrong with the source."""
        return _maker(source).build(task_id, folder)

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
        """Build the program in a box of this machine and bring the task folder into the store."""
        del history  # a generated program has no history: one commit is all there is
        del open_spec  # the compiler is the host's, so that the build box is too, whatever the back end
        return import_program(folder, store, limits=limits, cache=cache)

    def verify(self, task: Task, changes: Changes, store: TaskStore, open_box: BoxFactory) -> Verdict:
        """Run the pristine program on the policy's input in a fresh box and read the report."""
        return verify_input(task, changes, store, open_box)

    def reference(self, task: Task, store: TaskStore) -> Changes:
        """The generating input."""
        data = (store.private(task) / "solution/files" / INPUT).read_bytes()
        return Changes(files=(FileChange(path=INPUT, data=data, mode=0o644),), capped=False)

    def demonstrates(self, task: Task) -> bool:
        """Generated training tasks only."""
        return can_demonstrate(task)

    def demonstrate(self, task: Task, store: TaskStore, *, harness: str, seed: int) -> Sequence[ExpertTurn]:
        """The scripted expert's turns."""
        return demonstration(task, store, harness=harness, seed=seed)


def _maker(source: Mapping[str, Json]) -> GeneratedPrograms:
    if source["kind"] != "generated":
        raise RecipeError(f"the cyber domain has no task source {source['kind']!r}", hint="known: generated")
    return GeneratedPrograms.of(source)
