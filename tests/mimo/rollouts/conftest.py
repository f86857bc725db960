"""Two prepared coding tasks and a house for their rollouts; made once for the folder."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

import recipes
from mimo.backends.base import SamplingParams
from mimo.backends.scripted import ScriptedSampler
from mimo.domains import load_domain
from mimo.domains.base import TaskStore, open_local
from mimo.harnesses import load_harness
from mimo.harnesses.renderer import Renderer
from mimo.rollouts.groups import GroupPlan, attempts
from mimo.rollouts.house import House, RolloutSizes
from mimo.rollouts.loop import Attempt
from mimo.stages.tasks import _open
from mimo.types import Limits, Task
from sandbox.rootfs import ensure_rootfs

TOKENIZER = Path(recipes.__file__).parent / "tokenizers" / "small-2048"
LIMITS = Limits(wall_s=60, turn_s=2, command_s=10, memory_mb=256, processes=32, disk_mb=64, output_bytes=8192)
SOURCE = {
    "kind": "generated", "domain": "coding", "seed": 5, "train": 2, "heldout": 0, "families": None, "level": 1
}  # fmt: skip


class Lab:
    """Two prepared tasks and a house."""

    def __init__(self, folder: Path, pool: ThreadPoolExecutor) -> None:
        self.store = TaskStore(folder / "store")
        self.renderer = Renderer(TOKENIZER)
        self.cache = folder / "cache"
        self.domain = load_domain("coding")
        self.tasks = [self._task(folder, task_id) for task_id in self.domain.list_sources(SOURCE)]
        self._pool = pool

    def _task(self, folder: Path, task_id: str) -> Task:
        made = self.domain.build(SOURCE, task_id, folder / "made")
        return self.domain.import_folder(made, self.store, limits=LIMITS, history="past", cache=self.cache)

    def house(self, **sizes: int) -> House:
        """A house for one event loop."""
        rootfs = ensure_rootfs(self.cache)
        numbers = {"context_tokens": 512, "turn_tokens": 64, "observation_tokens": 64, "max_turns": 3} | sizes
        return House(
            store=self.store,
            renderer=self.renderer,
            sizes=RolloutSizes(temperature=1.0, top_p=1.0, **numbers),
            open_box=partial(_open, open_local, rootfs, "test", self.cache),
            domain=load_domain,
            harness=lambda name: load_harness(name, max_turns=numbers["max_turns"]),
            pool=self._pool,
            boxes=asyncio.Semaphore(4),
            verifiers=asyncio.Semaphore(2),
            policy="test",
        )

    def attempt(self, task: Task | None = None) -> Attempt:
        """One attempt at the first task."""
        plan = GroupPlan(group_id="g", task=task or self.tasks[0], harness="edit-lines", step=1, size=1)
        return attempts(plan, seed=1)[0]

    def says(self, *turns: str) -> ScriptedSampler:
        """A sampler that says these turns, one after another, then submits."""
        rest = list(turns)

        def script(prompt: tuple[int, ...], params: SamplingParams) -> list[int]:
            return self.renderer.assistant_ids(rest.pop(0) if rest else "<submit/>")

        return ScriptedSampler(script, weight_version=7)


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Made once: importing tasks takes a second."""
    with ThreadPoolExecutor(8) as pool:
        yield Lab(tmp_path_factory.mktemp("rollouts"), pool)
