"""What every rollout of a stage shares: the box pool, the verifier, the renderer, the sampling numbers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

from mimo.domains.base import Domain, TaskStore
from mimo.harnesses.base import Harness
from mimo.harnesses.renderer import Renderer
from mimo.rollouts.changes import changes_digest
from mimo.types import Task, Verdict
from sandbox.base import Changes, Sandbox

_P = ParamSpec("_P")
_R = TypeVar("_R")

OpenBox = Callable[[Task, Path, Mapping[str, Path]], Sandbox]
"""`(task, snapshot, read-only mounts) -> a fresh box with the task's limits`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RolloutSizes:
    """Sizes of a rollout, in tokens, and its sampling distribution."""

    context_tokens: int
    turn_tokens: int
    observation_tokens: int
    max_turns: int
    temperature: float
    top_p: float


@dataclass(kw_only=True, slots=True)
class House:
    """Shared by all rollouts of a stage; the pool's threads do everything that blocks."""

    store: TaskStore
    renderer: Renderer
    sizes: RolloutSizes
    open_box: OpenBox
    domain: Callable[[str], Domain]
    harness: Callable[[str], Harness]
    pool: Executor
    boxes: asyncio.Semaphore
    """Boxes that policies hold at once; a rollout's own clock starts when it has one."""
    verifiers: asyncio.Semaphore
    """Verifications at once: they are pure computing, so about the number of cores."""
    policy: str
    sees: bool = False
    """Whether the sampler is given the images of a message; vLLM, as used here, is not."""
    verdicts: dict[tuple[str, str], asyncio.Future[Verdict]] = field(default_factory=dict)
    """Verdicts by (task, digest of the changes), under way or done: equal changes are verified once."""
    verdicts_reused: int = 0

    async def in_thread(self, call: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """The result of a blocking call, run in the pool."""
        return await asyncio.get_running_loop().run_in_executor(self.pool, lambda: call(*args, **kwargs))

    @asynccontextmanager
    async def box(self, task: Task) -> AsyncIterator[Sandbox]:
        """A fresh box on the task's snapshot; closed in every case, also when we are cancelled meanwhile."""
        async with self.boxes:
            opening = asyncio.ensure_future(
                self.in_thread(self.open_box, task, self.store.snapshot(task), {})
            )
            try:
                box = await asyncio.shield(opening)
            except asyncio.CancelledError:
                opening.add_done_callback(_close_late)
                raise
            try:
                yield box
            finally:
                await asyncio.shield(self.in_thread(box.close))

    async def verify(self, task: Task, changes: Changes) -> Verdict:
        """The verdict on `changes`, from a pristine box (or from equal changes verified before)."""
        key = (task.task_id, changes_digest(changes))
        known = self.verdicts.get(key)
        if known is None:
            known = self.verdicts[key] = asyncio.ensure_future(self._judged(task, changes))
            known.add_done_callback(partial(self._keep_if_judged, key))
        else:
            self.verdicts_reused += 1
        return await asyncio.shield(known)

    def _keep_if_judged(self, key: tuple[str, str], judged: asyncio.Future[Verdict]) -> None:
        """A verification that failed or was cancelled is no answer for the next rollout, whoever waited."""
        if judged.cancelled() or judged.exception() is not None:
            self.verdicts.pop(key, None)

    async def _judged(self, task: Task, changes: Changes) -> Verdict:
        async with self.verifiers:
            return await self.in_thread(
                self.domain(task.domain).verify,
                task,
                changes,
                self.store,
                lambda snapshot, mounts: self.open_box(task, snapshot, mounts),
            )


def _close_late(opening: asyncio.Future[Sandbox]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
