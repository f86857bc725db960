"""Tasks that a recipe names and that are not made here: for want of a program, or of a policy that sees."""

from __future__ import annotations

from typing import cast

from mimo.domains import load_domain
from mimo.domains.base import PartlyMade
from mimo.recipe.models import Recipe
from mimo.types import Json, Task


def making_params(recipe: Recipe) -> dict[str, Json]:
    """What the set depends on besides the sources: what this machine lacks for some of them, and sight.

    Empty where nothing is left out, so that machines which make the whole set share its key.
    """
    lacks = set()
    for entry in recipe.tasks.sources:
        domain = load_domain(entry.domain)
        if isinstance(domain, PartlyMade):
            lacks |= set(domain.lacks(cast("dict[str, Json]", entry.model_dump(mode="json"))))
    found: dict[str, Json] = {"lacks": list[Json](sorted(lacks))} if lacks else {}
    return found | ({"sees": True} if recipe.policy.sees else {})


def needs_sight(task: Task, recipe: Recipe) -> str | None:
    """Why the recipe's policy cannot be given the task, or None."""
    if not task.images or recipe.policy.sees:
        return None
    return f"the task ({task.domain}, {task.family}) needs sight, and the policy has none (policy.sees)"
