"""Contexts of a rollout: ids are copied and never encoded again, and every sampled token trains once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import recipes
from mimo.backends.base import Sampled, SamplingParams
from mimo.backends.scripted import ScriptedSampler
from mimo.domains import load_domain
from mimo.harnesses.context import PLACEHOLDER, KeepAll, Recent
from mimo.harnesses.renderer import Renderer
from mimo.rollouts.dialogue import Dialogue
from mimo.rollouts.groups import GroupPlan, attempts
from mimo.rollouts.loop import Finished, run_rollout
from mimo.rollouts.signal import SampledGroup, learning_signal
from mimo.rollouts.store import RolloutStore
from mimo.rollouts.token_log import NOT_SAMPLED
from mimo.stages.rl_loop import signal_rules
from mimo.stages.rl_sequences import rl_sequences
from mimo.types import RolloutStatus, Task, Turn
from tests.mimo.rollouts.conftest import Lab
from tests.mimo.rollouts.made import made_task
from tests.mimo.stages.graded import smoke_recipe

HARNESS = "terse+json+shell+recent"
SOURCE = {
    "kind": "generated", "domain": "agent", "seed": 5, "train": 1, "heldout": 0, "families": ["line"],
    "level": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def renderer() -> Renderer:
    return Renderer(Path(recipes.__file__).parent / "tokenizers" / "small-2048")


def talked(renderer: Renderer, turns: int) -> Dialogue:
    """A dialogue of so many turns and observations, sampled by weight version 3."""
    made = Dialogue()
    opening = renderer.content_ids("do it")
    made.note(Turn(role="user", text="do it", span=made.log.given(opening)))
    for number in range(turns):
        ids = tuple(renderer.assistant_ids(f"turn {number}"))
        span = made.log.sampled(
            Sampled(token_ids=ids, logprobs=(-0.5,) * len(ids), finish_reason="stop", weight_version=3)
        )
        made.note(Turn(role="assistant", text=f"turn {number}", span=span))
        text = f"a long observation number {number} " * 4
        span = made.log.given(renderer.observation_ids(text, after_stop=True))
        made.note(Turn(role="tool", text=text, span=span), after_stop=True)
    return made


def test_a_branch_is_the_old_context_with_short_observations(renderer: Renderer) -> None:
    made = talked(renderer, 3)
    old = made.log.ids
    made.manage(Recent(keep=1, above=0.5), renderer, limit=len(old))
    turns = made.branches[0].turns
    short = tuple(renderer.observation_ids(PLACEHOLDER, after_stop=True))
    expected: tuple[int, ...] = ()
    for number, turn in enumerate(turns):
        dropped = turn.role == "tool" and number < len(turns) - 1
        expected += short if dropped else old[turn.span[0] : turn.span[1]]
    assert made.log.ids == expected
    assert len(made.log) < len(old)
    assert made.branches[0].log.ids == old
    payload = made.payloads()[1]
    assert not payload.loss_mask.any()
    assert set(payload.weight_version.tolist()) == {NOT_SAMPLED}
    (turn,) = made.turns
    assert turn.role == "user"
    assert turn.span == (0, len(expected))
    assert "first 2 observations are dropped" in turn.text


def test_nothing_happens_twice_or_too_early(renderer: Renderer) -> None:
    made = talked(renderer, 3)
    made.manage(KeepAll(), renderer, limit=1)
    made.manage(Recent(keep=1, above=0.9), renderer, limit=2 * len(made.log))
    made.manage(Recent(keep=3, above=0.1), renderer, limit=len(made.log))
    assert len(made.branches) == 1
    manager = Recent(keep=1, above=0.1)
    made.manage(manager, renderer, limit=len(made.log))
    made.manage(manager, renderer, limit=len(made.log))
    assert [context.parent for context in made.contexts()] == [None, "0"]


@pytest.fixture(scope="module")
def task(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Task:
    domain = load_domain("agent")
    (task_id,) = domain.list_sources(SOURCE)
    made = domain.build(SOURCE, task_id, tmp_path_factory.mktemp("agent"))
    limits = lab.tasks[0].environment.limits
    return domain.import_folder(made, lab.store, limits=limits, history="past", cache=lab.cache)


def _rollout(lab: Lab, task: Task, number: int, *last: str) -> tuple[Finished, ScriptedSampler]:
    """Three noisy commands, then `last`, in a context that holds about two observations."""
    noisy = [f'{{"tool": "shell", "command": "seq {n}00 {n}30"}}' for n in (1, 2, 3)]
    words = [*noisy, *last, '{"tool": "submit"}']

    def script(prompt: tuple[int, ...], params: SamplingParams) -> list[int]:
        return lab.renderer.assistant_ids(words.pop(0))

    sampler = ScriptedSampler(script, weight_version=7)
    plan = GroupPlan(group_id="g", task=task, harness=HARNESS, step=1, size=2)

    async def go() -> Finished:
        house = lab.house(context_tokens=420, observation_tokens=160, max_turns=6)
        return await run_rollout(attempts(plan, seed=1)[number], sampler, house)

    return asyncio.run(go()), sampler


def test_a_rollout_that_drops_observations(lab: Lab, task: Task, tmp_path: Path) -> None:
    path, line = task.instruction.split(" at the end of ")[1].split(": ", 1)
    good = f'{{"tool": "shell", "command": "echo \'{line.strip()}\' >> {path}"}}'
    finished, sampler = _rollout(lab, task, 0, good)
    other, _ = _rollout(lab, task, 1, "no action at all")
    record = finished.rollout
    assert record.status is RolloutStatus.DONE
    assert record.reward == 1.0
    assert [context.parent for context in record.contexts] == [
        None,
        *map(str, range(len(record.contexts) - 1)),
    ]
    assert len(record.contexts) == len(finished.payloads) > 1
    # every prompt the engine was given is what a context holds before a sampled turn, id by id
    starts = [
        tuple(payload.token_ids[: turn.span[0]].tolist())
        for context, payload in zip(record.contexts, finished.payloads, strict=True)
        for turn in context.turns
        if turn.role == "assistant"
    ]
    assert [asked.prompt_ids for asked in sampler.asked] == starts
    sampled = sum(int(payload.loss_mask.sum()) for payload in finished.payloads)
    assert record.generated_tokens == sampled
    assert record.num_turns == 5
    assert record.prompt_tokens == sum(map(len, finished.payloads)) - sampled
    _trains_each_token_once(finished, other)
    _is_stored(finished, tmp_path)


def _trains_each_token_once(finished: Finished, other: Finished) -> None:
    task = replace(made_task("t"), task_id=finished.rollout.task_id)
    plan = GroupPlan(group_id="g", task=task, harness=HARNESS, step=1, size=2)
    group = SampledGroup(plan=plan, finished=(finished, other), method="plain")
    signal = learning_signal([group], signal_rules(smoke_recipe()))
    assert signal.groups[0].accepted
    rows = [item for item in signal.trained if item.finished.rollout.rollout_id == "g.0"]
    assert [item.context for item in rows] == list(range(len(finished.payloads)))
    assert all((item.advantages[item.payload.loss_mask] > 0).all() for item in rows)
    assert all((item.advantages[~item.payload.loss_mask] == 0).all() for item in rows)
    losing = [item for item in signal.trained if item.finished.rollout.rollout_id == "g.1"]
    values = {
        (bool(turn.flags), number > 0): losing[number].advantages[turn.span[0]]
        for number, context in enumerate(other.rollout.contexts)
        for turn in context.turns
        if turn.role == "assistant"
    }
    assert values[True, True] < values[False, False] < 0  # the flag is on its own turn, in a later context
    sequences = rl_sequences(signal.trained)
    assert len({sequence.rollout_id for sequence in sequences}) == len(sequences)
    assert sum(sequence.trained_tokens for sequence in sequences) == sum(
        item.rollout.generated_tokens for item in (finished, other)
    )
    shared = [sequence.prefix_group for sequence in sequences]
    assert shared.count("g") == 2


def _is_stored(finished: Finished, folder: Path) -> None:
    store = RolloutStore(folder)
    store.write(1, [finished])
    found = store.contexts(1)[finished.rollout.rollout_id]
    assert len(found) == len(finished.payloads)
    for read, made in zip(found, finished.payloads, strict=True):
        np.testing.assert_array_equal(read.token_ids, made.token_ids)
        np.testing.assert_array_equal(read.loss_mask, made.loss_mask)
    np.testing.assert_array_equal(
        store.payloads(1)[finished.rollout.rollout_id].token_ids, finished.payloads[0].token_ids
    )
