"""What tasks are about, by name: where they come from, how they are verified, how an expert solves them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import cast

from mimo.domains.base import Domain
from mimo.registry import Registry

DOMAINS = Registry(
    "domain",
    {
        "coding": "mimo.domains.coding.domain:Coding",
        "agent": "mimo.domains.agent.domain:Agent",
        "cyber": "mimo.domains.cyber.domain:Cyber",
        "visual": "mimo.domains.visual.domain:Visual",
    },
)


@cache
def load_domain(name: str) -> Domain:
    """The domain called `name` (one instance a process); RecipeError for an unknown name."""
    return cast(Callable[[], Domain], DOMAINS.load(name))()
