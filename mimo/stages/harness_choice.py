"""Which harness a group gets: one for all its rollouts, drawn by seed among those that support its domain."""

from __future__ import annotations

from collections.abc import Callable

from mimo.errors import RecipeError
from mimo.harnesses import draw_harness, supported
from mimo.recipe.models import Recipe
from mimo.types import Task


def group_harness(recipe: Recipe, task: Task, group_id: str) -> str:
    """The harness of a group that is sampled for training."""
    return draw_harness(recipe.harness.names, task.domain, recipe.seed, group_id)


def evaluation_harness(recipe: Recipe) -> Callable[[Task], str]:
    """The harness of a task in every evaluation: drawn by its id, the same one for every policy."""
    return lambda task: draw_harness(recipe.harness.names, task.domain, recipe.seed, task.task_id)


def check_harnesses(recipe: Recipe) -> None:
    """Refuse a task source whose domain no harness supports, before any work is done for it.

    Raises:
        RecipeError: names the domain, the harnesses and those that would do; also for a harness that is both
            trained with and held out, and for unknown names.
    """
    names, heldout = recipe.harness.names, recipe.audit.heldout_harnesses
    if both := sorted(set(names) & set(heldout)):
        raise RecipeError(
            f"{', '.join(both)} is in harness.names and in audit.heldout_harnesses",
            hint="a harness that is trained with is not held out: take it out of one of the two",
        )
    for entry in recipe.tasks.sources:
        draw_harness(names, entry.domain)
        supported(heldout, entry.domain)
