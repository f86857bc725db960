"""A prepared task on disk, finished attempts at it, and a context that notes what a stage says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from mimo.domains.base import TaskStore
from mimo.recipe.loader import load_recipe
from mimo.recipe.models import Recipe
from mimo.rollouts.changes import changes_digest
from mimo.rollouts.groups import GroupPlan
from mimo.rollouts.loop import Finished
from mimo.rollouts.signal import SampledGroup
from mimo.rollouts.token_log import Payload
from mimo.stages.base import Progress
from mimo.types import Json, Routing, Task
from tests.mimo.graders.made import (
    BASE,
    GOOD,
    OTHER,
    PATH,
    RIGHT,
    TASK,
    TEST_PATH,
    TESTS,
    Step,
    changes,
    rollout,
)
from tests.mimo.rollouts.made import made_task

ROOT = Path(__file__).parents[3]


def prepared_task(root: Path, name: str = "t", routing: Routing = "plain") -> Task:
    """The task of `tests.mimo.graders.made`, written as prepare-env writes it."""
    store = TaskStore(root)
    task = replace(made_task(name), instruction=TASK, routing=routing)
    for path, text in {PATH: BASE, OTHER: "VALUE = 1\n", TEST_PATH: TESTS}.items():
        _write(store.snapshot(task) / path, text)
    _write(store.private(task) / "solution" / "files" / PATH, RIGHT)
    return task


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def attempt(
    task: Task,
    name: str,
    after: str | Mapping[str, str] = RIGHT,
    steps: Sequence[Step] = GOOD,
    *,
    passed: bool | None = True,
    refused: Sequence[str] = (),
    tokens: int = 4,
) -> Finished:
    """A finished attempt at the task; without a verdict it has failed on the way."""
    made = changes({PATH: after} if isinstance(after, str) else after)
    record = rollout(name, steps, passed=passed, refused=refused)
    record = replace(
        record, task_id=task.task_id, group_id="g", diff=changes_digest(made), generated_tokens=tokens
    )
    payload = Payload(
        token_ids=np.arange(tokens, dtype=np.int32),
        loss_mask=np.ones(tokens, dtype=np.bool_),
        sampler_logprobs=np.zeros(tokens, dtype=np.float32),
        weight_version=np.ones(tokens, dtype=np.int32),
    )
    return Finished(rollout=record, payload=payload, changes=made)


def group(task: Task, rows: Sequence[Finished], method: Routing) -> SampledGroup:
    """The attempts as one group."""
    plan = GroupPlan(group_id="g", task=task, harness="edit-lines", step=1, size=len(rows))
    return SampledGroup(plan=plan, finished=tuple(rows), method=method)


def smoke_recipe(overrides: Sequence[str] = ()) -> Recipe:
    """The shipped recipe in its smallest profile."""
    return load_recipe(ROOT / "recipes" / "pro.yaml", profile="smoke", overrides=list(overrides)).model


@dataclass(kw_only=True)
class NotedContext:
    """A stage's context that keeps what it is told; no sampler stands behind it."""

    recipe: Recipe
    inputs: Mapping[str, Path]
    out: Path
    scratch: Path = Path("/nonexistent")
    cache: Path = Path("/nonexistent")
    resume: Progress | None = None
    label: str = "test"
    planned: int = 0
    committed: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    reasons: list[str] = field(default_factory=list)
    metrics: dict[int, dict[str, float]] = field(default_factory=dict)

    def plan(self, units: int) -> None:
        self.planned = units

    def commit(self, step: int, state: Mapping[str, Json]) -> None:
        self.committed = step

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self.metrics[step] = dict(metrics)

    def count(self, what: str, amount: int = 1, *, why: str = "") -> None:
        self.counts[what] += amount
        self.reasons.append(why)

    def trace(self, step: int, data: Mapping[str, Json]) -> None: ...

    def progress(self, done: int, total: int, unit: str, note: str = "") -> None: ...

    def event(self, event: str, about: Mapping[str, Json]) -> None: ...

    def should_stop(self) -> bool:
        return False

    def check_stop(self) -> None: ...
    def rewind(self, step: int, state: Mapping[str, Json]) -> None: ...
