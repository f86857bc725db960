"""How far the student is from its teachers in fixed contexts that it never trains on, before and after.

Contexts: the starting student's own rollouts on held-out tasks, sampled once; and trajectories of the teacher
and of the expert that are kept apart (every prefix of each is in it). The distance is the reverse KL over the
whole vocabulary, so that no sampling noise and no change of contexts is in the difference.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from mimo.rollouts.evaluate import evaluate
from mimo.rollouts.prefixes import Trajectory
from mimo.rollouts.store import RolloutStore
from mimo.run_dir.files import read_json, write_json
from mimo.stages.base import StageContext
from mimo.stages.harness_choice import evaluation_harness
from mimo.stages.mopd2_samples import KINDS, TEACHER_OF, Kind, usable
from mimo.stages.school import School
from mimo.stages.tasks import read_tasks, task_folder
from mimo.stages.teachers import reading_place
from mimo.training.reader import Context
from mimo.training.reference import reverse_kl

Distances = dict[str, float]
"""`KIND/TEACHER` -> mean reverse KL, nats a token."""


class FixedContexts:
    """The contexts of one mopd2 stage and the folders of its teachers."""

    def __init__(
        self,
        ctx: StageContext,
        apart: Mapping[Kind, Sequence[Trajectory]],
        teachers: Mapping[str, Path],
    ) -> None:
        self._ctx = ctx
        self._teachers = teachers
        self._contexts: dict[Kind, Sequence[Trajectory]] = dict(apart)
        self._folder = ctx.out / "evaluation"

    async def open(self, school: School) -> None:
        """Sample the student's contexts (or read them back) and measure the start, once."""
        store = RolloutStore(self._folder)
        if not store.steps():
            await self._sample(school, store)
        payloads = store.payloads(0)
        self._contexts["student"] = [
            Trajectory(rollout=rollout, payload=payloads[rollout.rollout_id])
            for rollout in store.rollouts(0)
            if usable(rollout)
        ]
        if self.read("first") is None:
            await self.measure(school, "first")

    async def measure(self, school: School, name: str) -> Distances:
        """The distances of the school's student as it is now, also kept in `evaluation/NAME.json`."""
        async with school.sampler_asleep():
            found = await asyncio.to_thread(self._measured, school.published)
        write_json(self._folder / f"{name}.json", dict(found))
        return found

    def read(self, name: str) -> Distances | None:
        """What `measure` kept under `name`; None before."""
        data = read_json(self._folder / f"{name}.json")
        return None if data is None else {key: float(str(value)) for key, value in data.items()}

    def _measured(self, student: Path) -> Distances:
        found: Distances = {}
        for kind in KINDS:
            rows = self._contexts.get(kind, ())
            if not rows:
                self._ctx.count(f"no fixed context of kind {kind}", why="nothing recorded to compare in")
                continue
            contexts = [Context(row.payload.token_ids, row.payload.loss_mask) for row in rows]
            teacher = self._teachers[TEACHER_OF[kind]]
            values = reverse_kl(
                student, teacher, contexts, reading_place(self._ctx, [student, teacher], contexts)
            )
            tokens = [int(row.payload.loss_mask.sum()) for row in rows]
            weighted = math.fsum(value * number for value, number in zip(values, tokens, strict=True))
            found[f"{kind}/{TEACHER_OF[kind]}"] = weighted / sum(tokens)
        return found

    async def _sample(self, school: School, store: RolloutStore) -> None:
        ctx = self._ctx
        tasks = read_tasks(task_folder(ctx))
        chosen = [task for task in tasks if task.split == "heldout"]
        if not chosen:
            ctx.count("fixed contexts of training tasks", why="the task set has no held-out task")
            chosen = tasks
        chosen = chosen[: ctx.recipe.mopd2.evaluation_contexts]
        if school.step:
            ctx.count("fixed contexts sampled late", why=f"they were gone; sampled after step {school.step}")
        finished = await evaluate(
            chosen,
            school.sampler,
            school.house,
            name="fixed",
            harness=evaluation_harness(ctx.recipe),
            step=0,
            attempts=1,
            seed=ctx.recipe.seed,
            on_done=lambda done, total: ctx.progress(
                school.step, ctx.recipe.mopd2.steps, "step", f"fixed contexts {done}/{total}"
            ),
        )
        if unused := sum(not usable(item.rollout) for item in finished):
            ctx.count("fixed context not used", unused, why="no verdict, no turn, or a confirmed hack")
        store.write(0, finished)
