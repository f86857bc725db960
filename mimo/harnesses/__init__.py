"""Ways to act, by name: what a policy sees, which actions it has, how a turn is read."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol, cast

from mimo.errors import RecipeError
from mimo.harnesses.base import Harness
from mimo.registry import Registry
from mimo.types import Domain

HARNESSES = Registry(
    "harness",
    {
        "edit-lines": "mimo.harnesses.edit_lines:EditLines",
        "write-input": "mimo.harnesses.write_input:WriteInput",
        "json-lines": "mimo.harnesses.named:JSON_LINES",
        "bash-terse": "mimo.harnesses.named:BASH_TERSE",
        "json-terse": "mimo.harnesses.named:JSON_TERSE",
        "xml-files": "mimo.harnesses.named:XML_FILES",
        "json-files-recent": "mimo.harnesses.named:JSON_FILES_RECENT",
        "bash-guided-recent": "mimo.harnesses.named:BASH_GUIDED_RECENT",
        "xml-plan": "mimo.harnesses.named:XML_PLAN",
    },
)
HELDOUT = ("bash-guided-recent", "xml-plan")
"""Kept for evaluation (`harness.heldout` in the recipe): no training stage should use them."""


class HarnessMaker(Protocol):
    """What a name stands for: called with the number of turns, it makes one rollout's harness."""

    @property
    def domains(self) -> tuple[Domain, ...]:
        """The domains it supports."""
        ...

    def __call__(self, max_turns: int, /) -> Harness:
        """A harness for one rollout."""
        ...


def harness_maker(name: str) -> HarnessMaker:
    """What `name` stands for: a known name, `prompt+format+tools+context`, or `package.module:attribute`.

    Raises:
        RecipeError: an unknown name or part.
    """
    if "+" in name and ":" not in name:
        from mimo.harnesses.composed import Composition

        return Composition.of(name)
    return cast(HarnessMaker, HARNESSES.load(name))


def load_harness(name: str, *, max_turns: int) -> Harness:
    """A harness for one rollout of at most `max_turns` model turns; RecipeError for an unknown name."""
    return harness_maker(name)(max_turns)


def supported(names: Sequence[str], domain: Domain) -> list[str]:
    """Those of `names` whose harness supports the domain, in their order; RecipeError for an unknown name."""
    return [name for name in names if domain in harness_maker(name).domains]


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
