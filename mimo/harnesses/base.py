"""How a policy acts: a harness is a prompt, a set of tools and a way to manage context, composed by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from mimo.harnesses.context import ContextManager
from mimo.types import Domain, Json, Task, ToolCall
from sandbox.base import Sandbox


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """One message to render: system, user or tool text (assistant turns are tokens, never rendered)."""

    role: str
    text: str
    images: tuple[str, ...] = ()
    """Paths below the task store; only a policy that sees is given any."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Malformed:
    """A part of a turn that the parser refuses: the rule, and the characters [start, end) of the turn."""

    rule: str
    chars: tuple[int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class ParsedTurn:
    """What the parser read in a turn: at most one action is carried out, every fault is listed."""

    call: ToolCall | None
    malformed: tuple[Malformed, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """What acting gave back; `done` ends the rollout (submitted)."""

    text: str
    done: bool
    exit_code: int | None = None
    truncated: bool = False


class Harness(Protocol):
    """One way to act. Instances are per rollout; methods that touch the box block (run them in threads)."""

    name: str
    domains: tuple[Domain, ...]
    needs_sight: bool
    max_turns: int
    context: ContextManager

    def opening(self, task: Task) -> list[Message]:
        """The system and user messages a rollout starts with."""
        ...

    def parse(self, text: str) -> ParsedTurn:
        """The action in an assistant turn; the only parser (its faults become flags on the tokens)."""
        ...

    def say(self, call: ToolCall) -> str:
        """A turn that `parse` reads as this call: what an expert writes; ValueError if there are no words."""
        ...

    def act(self, call: ToolCall | None, box: Sandbox, task: Task) -> Observation:
        """Carry out the action (None = nothing parseable: the observation says what is accepted)."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpertTurn:
    """One turn of a demonstration: the text the expert writes.

    `facts`: `action` names what the turn does; `shows_fault` is True on a run of the tests that has to fail.
    """

    text: str
    facts: dict[str, Json]
    faulty: bool = False
    """A mistake acted out on purpose: history for what follows, never a target."""
