"""Parts of the recipe that several stages' results depend on; light, as planning imports it."""

from __future__ import annotations

from typing import cast

from mimo.recipe.models import Recipe
from mimo.types import Json


def policy_params(recipe: Recipe) -> dict[str, Json]:
    """What the starting weights and the tokens depend on."""
    return cast("dict[str, Json]", recipe.policy.model_dump(mode="json", exclude={"sees"}))


def box_images(recipe: Recipe) -> dict[str, Json]:
    """The image boxes are made of, by digest, where the recipe names one; else tasks record their root's."""
    return {} if recipe.sandbox.image is None else {"box": recipe.sandbox.image}


def rollout_params(recipe: Recipe) -> dict[str, Json]:
    """What a rollout depends on besides weights and tasks."""
    return {
        "harness": recipe.harness.model_dump(mode="json"),
        "sampling": recipe.sampling.model_dump(mode="json"),
        "seed": recipe.seed,
    }
