"""The visual domain: draw or repair a picture; what it looks like, rendered by us, decides."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from mimo.domains.base import BoxFactory, OpenSpec, TaskStore, open_local
from mimo.domains.coding.reference import reference_changes
from mimo.domains.visual.expert import can_demonstrate, demonstration
from mimo.domains.visual.importer import import_picture
from mimo.domains.visual.renderer import browser, require_renderer
from mimo.domains.visual.source import GeneratedPictures
from mimo.domains.visual.verify import verify_picture
from mimo.domains.visual.write import FACTS
from mimo.errors import RecipeError
from mimo.harnesses.base import ExpertTurn
from mimo.types import Json, Limits, Task, Verdict
from sandbox.base import Changes


class Visual:
    """Make a file that looks like the reference; its pixels decide, never what it says."""

    name: ClassVar[str] = "visual"

    def list_sources(self, source: Mapping[str, Json]) -> Sequence[str]:
        """The opaque ids of the tasks of a recipe's entry.

        Raises:
            MachineLacks: nothing can be rendered here; said before any task of the run is made.
        """
        maker = GeneratedPictures.of(source)
        require_renderer()
        return maker.task_ids()

    def lacks(self, source: Mapping[str, Json]) -> Sequence[str]:
        """`chromium`, where the source draws from a family of pages and there is none."""
        pools = GeneratedPictures.of(source).splits()
        pages = any(entry.renderer == "chromium" for _, pool, _ in pools for entry in pool)
        return ("chromium",) if pages and browser() is None else ()

    def build(self, source: Mapping[str, Json], task_id: str, folder: Path) -> Path:
        """Make one task folder; RecipeError names what is wrong with the source."""
        return GeneratedPictures.of(source).build(task_id, folder)

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
        """Bring a task folder into the store, its reference rendered.

        Raises:
            RecipeError: also for a page where there is no Chromium: that task is left out, by name.
        """
        _require_a_renderer(folder)
        return import_picture(folder, store, limits=limits, history=history, cache=cache, open_spec=open_spec)

    def verify(self, task: Task, changes: Changes, store: TaskStore, open_box: BoxFactory) -> Verdict:
        """Render the policy's file in a fresh box and compare."""
        return verify_picture(task, changes, store, open_box)

    def reference(self, task: Task, store: TaskStore) -> Changes:
        """The file as it should be."""
        return reference_changes(store.private(task))

    def demonstrates(self, task: Task) -> bool:
        """Generated training tasks only."""
        return can_demonstrate(task)

    def demonstrate(self, task: Task, store: TaskStore, *, harness: str, seed: int) -> Sequence[ExpertTurn]:
        """The scripted expert's turns."""
        return demonstration(task, store, harness=harness, seed=seed)


def _require_a_renderer(folder: Path) -> None:
    """Refuse a page where nothing can render it: one task is left out by name, the others are made."""
    facts = json.loads((folder / FACTS).read_bytes())
    if facts["renderer"] == "chromium" and browser() is None:
        raise RecipeError(
            f"{facts['file']} needs Chromium, and this machine has none (Debian's package: chromium)"
        )
