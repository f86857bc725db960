"""Ways to act, by name: what a policy sees, which actions it has, how a turn is read."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import cast

from mimo.errors import RecipeError
from mimo.harnesses.base import Harness
from mimo.registry import Registry
from mimo.types import Domain

HARNESSES = Registry("harness", {"edit-lines": "mimo.harnesses.edit_lines:EditLines"})


def load_harness(name: str, *, max_turns: int) -> Harness:
    """A harness for one rollout of at most `max_turns` model turns; RecipeError for an unknown name."""
    return cast(Callable[[int], Harness], HARNESSES.load(name))(max_turns)


def supported(names: Sequence[str], domain: Domain) -> list[str]:
    """Those of `names` whose harness supports the domain, in their order; RecipeError for an unknown name."""
    return [name for name in names if domain in cast(Harness, HARNESSES.load(name)).domains]


def draw_harness(names: Sequence[str], domain: Domain, *parts: object) -> str:
    """One of the harnesses that support the domain; equal `parts` (seed, group, ...) draw the same one.

    Raises:
        RecipeError: none supports it; the message names those that would.
    """
    mine = supported(names, domain)
    if not mine:
        others = ", ".join(supported(HARNESSES.names(), domain)) or "none yet"
        raise RecipeError(
            f"no harness of harness.names ({', '.join(names)}) supports the {domain} domain",
            hint=f"those that do: {others}; or leave the domain out of tasks.sources",
        )
    return random.Random("\x1f".join(map(str, ("harness", *parts)))).choice(mine)
