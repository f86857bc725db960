"""A recorded rl-mixed step, and its boxes once more: what `overhead.py` replays."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

from mimo.domains import load_domain
from mimo.domains.base import TaskStore, open_local
from mimo.harnesses import load_harness
from mimo.recipe.loader import load_recipe
from mimo.recipe.models import Recipe
from mimo.rollouts.changes import read_changes
from mimo.rollouts.groups import GroupPlan
from mimo.rollouts.loop import Finished
from mimo.rollouts.signal import SampledGroup, TrainedRollout, learning_signal
from mimo.rollouts.store import RolloutStore
from mimo.rollouts.token_log import Payload
from mimo.stages.rl_loop import signal_rules
from mimo.stages.tasks import _open, read_tasks
from mimo.training.checkpoint import MODEL, newest_checkpoint
from mimo.types import Rollout, Task, Turn
from sandbox.base import Sandbox
from sandbox.rootfs import ensure_rootfs

ROOT = Path(__file__).parents[1]
T = TypeVar("T")


@dataclass(frozen=True)
class Recorded:
    """One rl-mixed step as its files tell it."""

    recipe: Recipe
    home: Path
    tasks: dict[str, Task]
    store: TaskStore
    model_dir: Path
    rollouts: list[Rollout]
    payloads: dict[str, Payload]
    metrics: dict[str, float]
    judged: frozenset[tuple[str, str]]
    """(task, digest of the changes) of the earlier steps: a run keeps its verdicts and judges none again."""


def newest_output(home: Path, stage: str) -> Path:
    found = (home / "store" / stage).glob("*/manifest.json")
    return max(found, key=lambda path: path.stat().st_mtime).parent


def read_step(home: Path, profile: str, step: int) -> Recorded:
    """One step of the newest rl-mixed output in `home`."""
    output, prepared = newest_output(home, "rl-mixed"), newest_output(home, "probe-hacks")
    store = RolloutStore(output)
    rows = (output / "_run" / "metrics.jsonl").read_text().splitlines()
    found = newest_checkpoint(output / "checkpoints", contents="model", on_damaged=print)
    assert found is not None
    return Recorded(
        recipe=load_recipe(ROOT / "recipes" / "pro.yaml", profile=profile).model,
        home=home,
        tasks={task.task_id: task for task in read_tasks(prepared)},
        store=TaskStore(prepared),
        model_dir=found[0] / MODEL,
        rollouts=list(store.rollouts(step)),
        judged=frozenset(
            (row.task_id, row.diff)
            for before in range(1, step)
            for row in store.rollouts(before)
            if row.diff is not None
        ),
        payloads=dict(store.payloads(step)),
        metrics=json.loads(rows[step - 1])["metrics"],
    )


def trained_rollouts(recorded: Recorded) -> list[TrainedRollout]:
    """The step's learning signal, made again from its records."""
    groups: dict[str, list[Finished]] = {}
    for row in recorded.rollouts:
        reward = None if row.verdict is None else float(row.verdict.passed)
        fresh = replace(row, reward=reward)
        item = Finished(rollout=fresh, payload=recorded.payloads.get(row.rollout_id), changes=None)
        groups.setdefault(row.group_id, []).append(item)
    sampled = [
        SampledGroup(
            plan=GroupPlan(
                group_id=name,
                task=recorded.tasks[rows[0].rollout.task_id],
                harness=rows[0].rollout.harness,
                step=rows[0].rollout.step,
                size=len(rows),
            ),
            finished=tuple(rows),
            method=recorded.tasks[rows[0].rollout.task_id].routing,
        )
        for name, rows in groups.items()
    ]
    return list(learning_signal(sampled, signal_rules(recorded.recipe)).trained)


class ReplayedBoxes:
    """The step's boxes: tool calls and verifications as the records tell them; at most the run's threads."""

    def __init__(self, recorded: Recorded) -> None:
        self._recorded = recorded
        runtime = recorded.recipe.runtime.sandbox
        self._acting = ThreadPoolExecutor(runtime.concurrency)
        self._verifying = ThreadPoolExecutor(runtime.verifiers)
        self._diffs = newest_output(recorded.home, "rl-mixed") / "diffs"
        self._verified = set(recorded.judged)
        root, tools = ensure_rootfs(recorded.home / "cache"), recorded.store.root / "tools"
        self._open_box = partial(_open, open_local, root, "overhead", tools)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pool in (self._acting, self._verifying):
            pool.shutdown()

    @asynccontextmanager
    async def box(self, rollout: Rollout) -> AsyncIterator[Sandbox]:
        """A fresh box of the rollout's task, taken apart at the end."""
        task = self._recorded.tasks[rollout.task_id]
        box = await _run(self._acting, self._open_box, task, self._recorded.store.snapshot(task), {})
        try:
            yield box
        finally:
            await _run(self._acting, box.close)

    async def call(self, rollout: Rollout, turn: Turn, box: Sandbox) -> None:
        """Run one turn's tool call."""
        task = self._recorded.tasks[rollout.task_id]
        harness = load_harness(rollout.harness, max_turns=self._recorded.recipe.harness.max_turns)
        await _run(self._acting, harness.act, turn.tool_calls[0] if turn.tool_calls else None, box, task)

    async def freeze(self, box: Sandbox) -> None:
        """Kill the box's processes and read its changes."""
        await _run(self._acting, box.freeze)
        await _run(self._acting, box.changes)

    async def verify(self, rollout: Rollout) -> None:
        """Judge the recorded changes; equal changes are judged once, as in the run."""
        if rollout.diff and (rollout.task_id, rollout.diff) not in self._verified:
            self._verified.add((rollout.task_id, rollout.diff))
            await _run(self._verifying, self._judge, rollout)

    def _judge(self, rollout: Rollout) -> None:
        task = self._recorded.tasks[rollout.task_id]
        load_domain(task.domain).verify(
            task,
            read_changes(self._diffs, str(rollout.diff)),
            self._recorded.store,
            lambda snapshot, mounts: self._open_box(task, snapshot, mounts),
        )


async def _run(pool: ThreadPoolExecutor, function: Callable[..., T], *args: object) -> T:
    return await asyncio.get_running_loop().run_in_executor(pool, function, *args)
