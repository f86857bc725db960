"""Which tasks come next: seeded epochs over the training set, resumable from one number."""

from __future__ import annotations

import random
from collections.abc import Sequence

from mimo.rollouts.loop import derived_seed
from mimo.types import Task


class TaskFeed:
    """Endless tasks: epoch after epoch, each in its own seeded order; `cursor` is how many were taken."""

    def __init__(self, tasks: Sequence[Task], *, seed: int, cursor: int = 0) -> None:
        self._tasks = list(tasks)
        self._seed = seed
        self.cursor = cursor

    def take(self, number: int) -> list[Task]:
        """The next `number` tasks."""
        taken = [self._at(self.cursor + offset) for offset in range(number)]
        self.cursor += number
        return taken

    def _at(self, position: int) -> Task:
        epoch, place = divmod(position, len(self._tasks))
        order = list(range(len(self._tasks)))
        random.Random(derived_seed("feed", self._seed, epoch)).shuffle(order)
        return self._tasks[order[place]]
