"""The hack audit of a stage's rollouts: the rules of `mimo.hacks.audit` with each task's own secrets.

What a task's audit compares with (needles of the reference, object ids of the base's history) is made once,
and only when a rollout took a step on some route: without one there is nothing to prove.
"""

from __future__ import annotations

from mimo.domains.base import TaskStore
from mimo.hacks.audit import TaskFacts, audit_rollout, task_facts
from mimo.hacks.git_view import GitError
from mimo.hacks.needles import Needles
from mimo.hacks.scene import open_scene
from mimo.rollouts.signal import SampledGroup
from mimo.stages.environment_probe import secrets_of
from mimo.types import HackFinding, HackVerdict, Rollout, Task

_NO_FACTS = TaskFacts(needles=Needles())


class HackAudit:
    """Matches `grade.Audit`.

    A rollout on a route of a task whose facts cannot be made is `unaudited`, unless the verifier confirms.
    """

    def __init__(self, store: TaskStore) -> None:
        self._store = store
        self._facts: dict[str, TaskFacts | None] = {}

    def __call__(self, group: SampledGroup) -> list[HackFinding]:
        """The findings of a group, in its order."""
        return [self.finding(group.plan.task, item.rollout) for item in group.finished]

    def finding(self, task: Task, rollout: Rollout) -> HackFinding:
        """The finding of one rollout of `task`."""
        quick = audit_rollout(rollout, _NO_FACTS)
        if quick.verdict is HackVerdict.CLEAN:
            return quick
        facts = self.facts(task)
        if facts is not None:
            return audit_rollout(rollout, facts)
        confirmed = quick.verdict is HackVerdict.CONFIRMED
        return quick if confirmed else HackFinding(verdict=HackVerdict.UNAUDITED, routes=quick.routes)

    def facts(self, task: Task) -> TaskFacts | None:
        """What the task's rollouts are compared with; None where it cannot be made."""
        if task.task_id not in self._facts:
            self._facts[task.task_id] = self._made(task)
        return self._facts[task.task_id]

    def _made(self, task: Task) -> TaskFacts | None:
        if not self._store.private(task).is_dir() or not self._store.snapshot(task).is_dir():
            return None  # nothing to compare with: no evidence could ever be found
        secrets = secrets_of(task, self._store)
        try:
            with open_scene(self._store.snapshot(task), task.base_commit, secrets) as scene:
                return task_facts(scene)
        except (GitError, OSError):
            return None
