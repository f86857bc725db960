"""One new turn after a history: the recorded ids go to the engine as they are, nothing is carried out."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mimo.backends.scripted import ScriptedSampler
from mimo.domains import load_domain
from mimo.domains.base import TaskStore
from mimo.harnesses import load_harness
from mimo.harnesses.renderer import Renderer
from mimo.rollouts.house import House, RolloutSizes
from mimo.rollouts.loop import Finished
from mimo.rollouts.prefixes import prefixes
from mimo.rollouts.single_turn import sample_turns, turn_plans
from mimo.types import RolloutStatus, Task
from sandbox.base import Sandbox
from tests.mimo.rollouts.made import made_trajectory

SMALL = Path(__file__).parents[3] / "recipes" / "tokenizers" / "small-2048"


def no_box(task: Task, snapshot: Path, readonly: Mapping[str, Path]) -> Sandbox:
    raise AssertionError(f"a box of {task.task_id} was opened")


def sampled(*, context_tokens: int, reply: str) -> tuple[list[Finished], ScriptedSampler]:
    renderer = Renderer(SMALL)
    pool = ThreadPoolExecutor(max_workers=1)
    house = House(
        store=TaskStore(SMALL),
        renderer=renderer,
        sizes=RolloutSizes(
            context_tokens=context_tokens,
            turn_tokens=24,
            observation_tokens=16,
            max_turns=3,
            temperature=1.0,
            top_p=1.0,
        ),
        open_box=no_box,
        domain=load_domain,
        harness=lambda name: load_harness(name, max_turns=3),
        pool=pool,
        boxes=asyncio.Semaphore(1),
        verifiers=asyncio.Semaphore(1),
        policy="student:0",
    )
    sampler = ScriptedSampler(lambda *_: renderer.assistant_ids(reply), weight_version=9)
    plans = turn_plans(prefixes(made_trajectory(turns=3)), name="t", step=1, seed=5)
    done = asyncio.run(sample_turns(plans, sampler, house, turn_s=10.0, on_done=lambda: None))
    pool.shutdown()
    return done, sampler


def test_the_new_turn_alone_is_trained_after_the_recorded_ids() -> None:
    made = made_trajectory(turns=3)
    done, sampler = sampled(context_tokens=200, reply="hm")
    for finished, prefix, asked in zip(done, prefixes(made), sampler.asked, strict=True):
        payload = finished.payload
        assert payload is not None
        assert asked.prompt_ids == prefix.ids
        start = len(prefix.ids)
        assert tuple(payload.token_ids[:start].tolist()) == prefix.ids
        assert not payload.loss_mask[:start].any()
        assert payload.loss_mask[start:].all()
        assert set(payload.weight_version[start:].tolist()) == {9}
        turn = finished.rollout.contexts[0].turns[-1]
        assert (turn.role, turn.span) == ("assistant", (start, len(payload)))
        assert finished.rollout.contexts[0].parent == made.rollout.rollout_id
        assert finished.rollout.status is RolloutStatus.DONE
        assert finished.rollout.verdict is None
    assert len({finished.rollout.rollout_id for finished in done}) == 3


def test_a_turn_cut_by_length_says_so_and_ends_without_an_end_of_turn() -> None:
    done, _ = sampled(context_tokens=200, reply="many words " * 20)
    ids = done[0].payload.token_ids  # type: ignore[union-attr]
    assert done[0].rollout.status is RolloutStatus.TRUNCATED
    assert ids[-1] not in Renderer(SMALL).stop_token_ids


def test_without_room_nothing_is_sampled() -> None:
    done, sampler = sampled(context_tokens=12, reply="hm")
    assert [finished.payload is None for finished in done] == [False, True, True]
    assert len(sampler.asked) == 1
