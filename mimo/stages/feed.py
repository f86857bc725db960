"""Which tasks come next: seeded epochs over the training set, a part for each kind of task, resumable.

Kinds are the keys of `rl_mixed.shares`. A kind without tasks, and tasks of a kind without a share, are left
out: `skipped` and `unused` say so, and the stage counts them.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from mimo.algo.quotas import quotas, renormalised
from mimo.domains.base import share_kind
from mimo.errors import RecipeError
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


class MixedFeed:
    """A feed for each kind of task that has a share; `shares` are those used, summing to 1."""

    def __init__(
        self,
        tasks: Sequence[Task],
        shares: Mapping[str, float],
        *,
        seed: int,
        cursors: Mapping[str, int],
    ) -> None:
        """Feeds at `cursors` (0 where there is none).

        Raises:
            RecipeError: no task is of a kind that has a share.
        """
        rows: dict[str, list[Task]] = {}
        for task in tasks:
            rows.setdefault(share_kind(task), []).append(task)
        self.shares = renormalised(shares, rows)
        if not self.shares:
            raise RecipeError(
                f"rl_mixed.shares gives nothing to {', '.join(sorted(rows))}, and there are no other tasks",
                hint="give the kinds of task in tasks.sources a share above 0",
            )
        self.skipped = {kind: share for kind, share in shares.items() if share > 0 and kind not in rows}
        """Kinds that have a share and no task."""
        self.unused = {kind: len(found) for kind, found in rows.items() if kind not in self.shares}
        """Kinds that have tasks (so many) and no share."""
        self._feeds = {
            kind: TaskFeed(rows[kind], seed=seed, cursor=cursors.get(kind, 0)) for kind in self.shares
        }

    @property
    def cursors(self) -> dict[str, int]:
        """How many tasks of each kind were taken."""
        return {kind: feed.cursor for kind, feed in self._feeds.items()}

    def quotas(self, groups: int, step: int) -> dict[str, int]:
        """Accepted groups that `step` (0-based) should have of each kind."""
        return quotas(self.shares, groups, step)

    def take(self, wanted: Mapping[str, int]) -> list[Task]:
        """The next tasks, so many of each kind."""
        return [task for kind, number in wanted.items() for task in self._feeds[kind].take(number)]
