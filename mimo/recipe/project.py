"""A project of one's own: the files of `recipes/project` under a new name; nothing is replaced."""

from __future__ import annotations

import re
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from mimo.errors import RecipeError

_NAME = "NAME"
"""What the template's text files say instead of the project's name."""
_RENAMED = {"gitignore.txt": ".gitignore"}
_NAMED = ("recipe.yaml", "README.md")
RECIPE = "recipe.yaml"


def init_project(folder: Path) -> list[Path]:
    """The files made in `folder`, which is made too; the recipe is `recipe.yaml`.

    Raises:
        RecipeError: one of the files is there already (then none is written), or `folder` is a file.
    """
    made = {folder / Path(*_renamed(parts)): data for parts, data in _template()}
    there = [path for path in made if path.exists() or path.is_symlink()]
    if there:
        raise RecipeError(
            f"{there[0]} is there already{f' (and {len(there) - 1} more)' if len(there) > 1 else ''}; "
            "nothing was written",
            hint="name a new folder",
        )
    name = project_name(folder)
    for path, data in made.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise RecipeError(f"{error.filename} is no folder", hint="name a new folder") from error
        with open(path, "xb") as file:
            file.write(data.replace(_NAME.encode(), name.encode()) if path.name in _NAMED else data)
    return list(made)


def project_name(folder: Path) -> str:
    """The folder's name as a recipe may be called: letters, digits, `-`, `_` and `.`."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", folder.absolute().name).strip("-._")
    return plain or "project"


def _renamed(parts: tuple[str, ...]) -> tuple[str, ...]:
    return (*parts[:-1], _RENAMED.get(parts[-1], parts[-1]))


def _template() -> list[tuple[tuple[str, ...], bytes]]:
    """Every file of the template by its path's parts, sorted."""
    found: list[tuple[tuple[str, ...], bytes]] = []
    todo: list[tuple[tuple[str, ...], Traversable]] = [((), resources.files("recipes").joinpath("project"))]
    while todo:
        parts, place = todo.pop()
        for item in place.iterdir():
            if item.is_dir() and item.name != "__pycache__":
                todo.append(((*parts, item.name), item))
            elif item.is_file():
                found.append(((*parts, item.name), item.read_bytes()))
    return sorted(found)
