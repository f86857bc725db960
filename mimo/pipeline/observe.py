"""Who watches a run: a protocol for live views, and one that watches nothing."""

from __future__ import annotations

from typing import Protocol

from mimo.pipeline.plan import Plan
from mimo.types import Event


class Observer(Protocol):
    """Called from the engine's main thread (`progress` from any); cheap and never failing."""

    def planned(self, plan: Plan) -> None:
        """The plan, before anything runs."""
        ...

    def event(self, event: Event) -> None:
        """A line that went to events.jsonl."""
        ...

    def progress(self, stage: str, done: int, total: int, unit: str, note: str) -> None:
        """Where the running stage is."""
        ...

    def tick(self) -> None:
        """A few times a second while a stage runs."""
        ...


class Blind:
    """An observer that looks away."""

    def planned(self, plan: Plan) -> None:
        """Nothing."""

    def event(self, event: Event) -> None:
        """Nothing."""

    def progress(self, stage: str, done: int, total: int, unit: str, note: str) -> None:
        """Nothing."""

    def tick(self) -> None:
        """Nothing."""
