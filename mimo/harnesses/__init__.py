"""Ways to act, by name: what a policy sees, which actions it has, how a turn is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from mimo.harnesses.base import Harness
from mimo.registry import Registry

HARNESSES = Registry("harness", {"edit-lines": "mimo.harnesses.edit_lines:EditLines"})


def load_harness(name: str, *, max_turns: int) -> Harness:
    """A harness for one rollout of at most `max_turns` model turns; RecipeError for an unknown name."""
    return cast(Callable[[int], Harness], HARNESSES.load(name))(max_turns)
