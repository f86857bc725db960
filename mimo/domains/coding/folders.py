"""The recipe's entry `kind: folder`: task folders a user made, in Harbor's layout."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self, cast

from mimo.domains.coding.importer import folder_task_id, read_folder
from mimo.errors import RecipeError
from mimo.types import Json


@dataclass(frozen=True, kw_only=True, slots=True)
class FolderTasks:
    """Every folder below `path` that has a task.toml, in order of name (or `path` itself if it has one)."""

    path: Path
    split: str

    @classmethod
    def of(cls, source: Mapping[str, Json]) -> Self:
        """From the recipe's entry; RecipeError if the path is no folder or holds no task."""
        made = cls(path=Path(cast(str, source["path"])), split=str(source.get("split", "train")))
        if not made.path.is_dir():
            raise RecipeError(
                f"task folder {made.path} does not exist", hint="see tasks.sources in the recipe"
            )
        if not made._folders():
            raise RecipeError(
                f"{made.path}: no task folder below it", hint="a task is a folder with a task.toml in it"
            )
        return made

    def task_ids(self) -> Sequence[str]:
        """Ids that say nothing about the folder's name."""
        return tuple(self._folders())

    def build(self, task_id: str, folder: Path) -> Path:
        """A copy of the user's folder, with what we know about it in `[metadata.mimo]`."""
        path = self._folders().get(task_id)
        if path is None:
            raise RecipeError(f"{self.path}: no task {task_id}")
        facts = read_folder(path).facts
        target = folder / task_id
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(path, target, symlinks=True)
        if not facts:
            added: dict[str, Json] = {
                "schema": 1,
                "task_id": task_id,
                "domain": "coding",
                "family": path.name,
                "split": self.split,
                "kind": "folder",
                "name": path.name,
            }
            rows = "".join(f"{key} = {json.dumps(value)}\n" for key, value in added.items())
            with open(target / "task.toml", "a") as file:
                file.write(f"\n[metadata.mimo]\n{rows}")
        return target

    def _folders(self) -> dict[str, Path]:
        places = [self.path] if (self.path / "task.toml").is_file() else sorted(self.path.iterdir())
        return {folder_task_id(place): place for place in places if (place / "task.toml").is_file()}
