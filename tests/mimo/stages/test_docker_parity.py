"""One recipe on both sandbox back ends, through prepare-env, the leak probes, rollouts: the same results."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path

import recipes
from mimo.backends.base import SamplingParams
from mimo.backends.scripted import ScriptedSampler
from mimo.domains import load_domain
from mimo.domains.base import TaskStore
from mimo.hacks.probe import find_leaks, leaks_only, look_inside
from mimo.hacks.route import Found
from mimo.hacks.scene import Expected, open_scene
from mimo.harnesses import load_harness
from mimo.harnesses.renderer import Renderer
from mimo.recipe.loader import load_recipe
from mimo.rollouts.groups import GroupPlan, attempts
from mimo.rollouts.house import House, RolloutSizes
from mimo.rollouts.loop import Finished, run_rollout
from mimo.stages.environment_probe import secrets_of
from mimo.stages.prepare_env import PrepareEnv
from mimo.stages.tasks import _open, read_tasks, spec_opener
from mimo.types import Task
from sandbox.rootfs import ensure_rootfs
from tests.docker_daemon import needs_docker
from tests.mimo.stages.running import Running

TOKENIZER = Path(recipes.__file__).parent / "tokenizers" / "small-2048"
SOURCE = (
    "tasks.sources=[{kind: generated, domain: coding, seed: 5, train: 1, heldout: 0, "
    "families: null, level: 1}]"
)


class Side:
    """One back end: its prepared task set, and rollouts in its boxes."""

    def __init__(self, backend: str, folder: Path) -> None:
        choice = (SOURCE, "prepare_env.reruns=1", f"sandbox.backend={backend}")
        recipe = load_recipe("pro", profile="smoke", overrides=choice).model
        self.prepare = Running(PrepareEnv(), recipe, folder / "prepare", folder / "cache", {})
        self.prepare.run()
        self.tasks = read_tasks(self.prepare.out)
        self.store = TaskStore(self.prepare.out)
        rootfs, tools = ensure_rootfs(folder / "cache"), self.prepare.out / "tools"
        self.open_box = partial(_open, spec_opener(recipe), rootfs, "test", tools)

    def leaks(self) -> list[Found]:
        """What the probes find in a box of the first task, and from inside it."""
        task = self.tasks[0]
        snapshot, environment = self.store.snapshot(task), task.environment
        expected = Expected(workdir=environment.workdir, env=environment.env)
        with open_scene(snapshot, task.base_commit, secrets_of(task, self.store), expected=expected) as scene:
            with self.open_box(task, snapshot, {}) as box:
                scene.box = look_inside(box)
            return leaks_only(find_leaks(scene))

    def rollout(self, *turns: str) -> Finished:
        """A rollout in which the policy says these turns, then submits."""
        return asyncio.run(self._rollout(list(turns)))

    async def _rollout(self, turns: list[str]) -> Finished:
        renderer = Renderer(TOKENIZER)

        def script(prompt: tuple[int, ...], params: SamplingParams) -> list[int]:
            return renderer.assistant_ids(turns.pop(0) if turns else "<submit/>")

        plan = GroupPlan(group_id="g", task=self.tasks[0], harness="edit-lines", step=1, size=1)
        with ThreadPoolExecutor(4) as pool:
            house = House(
                store=self.store,
                renderer=renderer,
                sizes=RolloutSizes(
                    context_tokens=1024, turn_tokens=128, observation_tokens=128, max_turns=4,
                    temperature=1.0, top_p=1.0,
                ),
                open_box=self.open_box,
                domain=load_domain,
                harness=lambda name: load_harness(name, max_turns=4),
                pool=pool,
                boxes=asyncio.Semaphore(2),
                verifiers=asyncio.Semaphore(2),
                policy="test",
            )  # fmt: skip
            return await run_rollout(
                attempts(plan, seed=1)[0], ScriptedSampler(script, weight_version=1), house
            )


def _told(finished: Finished) -> dict[str, object]:
    """All of a rollout but the times."""
    facts = json.loads(json.dumps(asdict(finished.rollout), default=str))
    for turn in (turn for context in facts["contexts"] for turn in context["turns"]):
        turn.pop("seconds")
    facts.pop("seconds")
    return dict(facts)


@needs_docker
def test_both_back_ends_give_the_same(tmp_path: Path) -> None:
    local, docker = (Side(backend, tmp_path / backend) for backend in ("local", "docker"))
    assert docker.tasks == local.tasks
    assert local.leaks() == docker.leaks() == []
    task: Task = local.tasks[0]
    expert = load_domain("coding").demonstrate(task, local.store, harness="edit-lines", seed=1)
    for turns, reward in (([turn.text for turn in expert], 1.0), (["<test/>", "<submit/>"], 0.0)):
        one, other = local.rollout(*turns), docker.rollout(*turns)
        assert other.rollout.reward == one.rollout.reward == reward
        assert other.rollout.diff == one.rollout.diff
        assert other.changes == one.changes is not None
        assert _told(other) == _told(one)
