"""What a family of workspace tasks is: a maker of cases, each a world, its end state, and a way there."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mimo.domains.agent.world import Tables, World
from mimo.types import Split, ToolCall


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One drawn task.

    `after` are the files that differ in the end state (None: gone), `rows` the tables that do, whole. `steps`
    bring the world there; the submit is not among them.
    """

    instruction: str
    world: World
    after: Mapping[str, str | None] = field(default_factory=dict)
    rows: Tables = field(default_factory=dict)
    steps: tuple[ToolCall, ...]


Maker = Callable[[random.Random, int], Case]
"""`(draw, level) -> a case`; level 1 takes one to three turns. The same draw gives the same case."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """A kind of task. Held-out families are never trained on and never demonstrated."""

    name: str
    split: Split
    make: Maker
    kind: str
    """What the task is about, for the table in docs/tasks.md."""


def shell(command: str) -> ToolCall:
    """A step that runs a command."""
    return ToolCall(name="shell", arguments={"command": command})


def read(path: str) -> ToolCall:
    """A step that reads a file."""
    return ToolCall(name="read", arguments={"path": path})
