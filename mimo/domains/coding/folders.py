"""The recipe's entry `kind: folder`: task folders a user made, in Harbor's layout."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self, cast

from mimo.domains.coding.importer import folder_task_id, read_folder
from mimo.errors import RecipeError
from mimo.types import Json

_HEADER = re.compile(r"^[ \t]*\[[ \t]*metadata[ \t]*\.[ \t]*mimo[ \t]*\][ \t]*(#.*)?$", re.M)


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
        known: dict[str, Json] = {
            "schema": 1,
            "task_id": task_id,
            "domain": "coding",
            "family": path.name,
            "split": self.split,
            "kind": "folder",
            "name": path.name,
        }
        _add_facts(target / "task.toml", facts, {key: known[key] for key in known if key not in facts})
        return target

    def _folders(self) -> dict[str, Path]:
        places = [self.path] if (self.path / "task.toml").is_file() else sorted(self.path.iterdir())
        return {folder_task_id(place): place for place in places if (place / "task.toml").is_file()}


def _add_facts(file: Path, facts: Mapping[str, Json], added: Mapping[str, Json]) -> None:
    """Write what is not said yet into `[metadata.mimo]`; RecipeError if that is no table of its own."""
    rows = "".join(f"{key} = {json.dumps(value)}\n" for key, value in added.items())
    text = file.read_text()
    if not facts and _HEADER.search(text) is None:
        file.write_text(f"{text}\n[metadata.mimo]\n{rows}")
        return
    found = _HEADER.search(text)
    if found is None:
        raise RecipeError(f"{file}: write [metadata.mimo] as a table of its own")
    file.write_text(f"{text[: found.end()]}\n{rows}{text[found.end() :]}")
