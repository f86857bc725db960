"""What `mimo recipe` shows: every profile of a recipe checked, and each key with its value and origin."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from mimo.errors import RecipeError
from mimo.recipe.loader import ResolvedRecipe, load_recipe, recipe_profiles
from mimo.types import Json


def load_all(path: Path | str, *, profile: str | None, overrides: Sequence[str] = ()) -> list[ResolvedRecipe]:
    """The recipe under the named profile, or under each it has (as it is, if it has none).

    Raises:
        RecipeError: any of them is wrong; a problem they share is listed once, the others name their profile.
    """
    names: Sequence[str | None] = [profile] if profile else recipe_profiles(path) or [None]
    resolved, failures = [], []
    for name in names:
        try:
            resolved.append(load_recipe(path, profile=name, overrides=overrides))
        except RecipeError as error:
            failures.append(error)
    if failures:
        raise _together(failures)
    return resolved


def _together(failures: Sequence[RecipeError]) -> RecipeError:
    lines: dict[str, None] = {}
    for failure in failures:
        head, *rest = failure.message.split("\n  ")
        lines.update(dict.fromkeys(rest or [head]))
    if len(lines) == 1:
        return RecipeError(next(iter(lines)), hint=failures[0].hint)
    message = "\n  ".join([f"{len(lines)} problems in the recipe", *lines])
    return RecipeError(message, hint=failures[0].hint)


def origin_lines(resolved: ResolvedRecipe) -> Iterator[str]:
    """`key = value  # file:line:col`, one for each value that is no mapping."""
    pairs = [(key, json.dumps(value)) for key, value in _leaves(resolved.model.data(), "")]
    width = min(72, max(len(key) + len(value) for key, value in pairs) + 3)
    for key, value in pairs:
        where = resolved.origins.get(key)
        left = f"{key} = {value}"
        yield f"{left:<{width}}  # {where}" if where else left


def _leaves(data: Json, key: str) -> Iterator[tuple[str, Json]]:
    below: Sequence[tuple[object, Json]] = ()
    if isinstance(data, dict):
        below = list(data.items())
    elif isinstance(data, list) and any(isinstance(item, dict) for item in data):
        below = list(enumerate(data))
    if not below:
        yield key, data
        return
    for name, value in below:
        yield from _leaves(value, f"{key}.{name}" if key else str(name))
