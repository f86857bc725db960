"""Whole rollouts in real boxes: scripted turns, real harness, real verifier, and what can go wrong."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from mimo.backends.scripted import ScriptedSampler
from mimo.errors import EngineFailed, MachineLacks
from mimo.harnesses import load_harness
from mimo.rollouts.expert import ExpertSampler
from mimo.rollouts.groups import GroupPlan, sample_groups
from mimo.rollouts.house import House
from mimo.rollouts.loop import Finished, run_rollout
from mimo.rollouts.store import RolloutStore
from mimo.rollouts.token_log import NOT_SAMPLED
from mimo.types import RolloutStatus, Task
from sandbox.errors import SandboxLost, SandboxUnavailable
from tests.mimo.rollouts.conftest import Lab


def _run(lab: Lab, sampler: ScriptedSampler, task: Task | None = None, **sizes: int) -> Finished:
    async def go() -> Finished:
        return await run_rollout(lab.attempt(task), sampler, lab.house(**sizes))

    return asyncio.run(go())


def _expert(lab: Lab, task: Task) -> list[str]:
    turns = lab.domain.demonstrate(task, lab.store, harness="edit-lines", seed=1)
    return [turn.text for turn in turns]


def test_the_experts_words_pass_and_every_token_is_accounted_for(lab: Lab) -> None:
    finished = _run(lab, lab.says(*_expert(lab, lab.tasks[0])))
    rollout, payload = finished.rollout, finished.payload
    assert rollout.status is RolloutStatus.DONE
    assert rollout.verdict is not None
    assert rollout.verdict.passed
    assert rollout.reward == 1.0
    assert payload is not None
    spans = [turn.span for turn in rollout.contexts[0].turns if turn.role == "assistant"]
    trained = [place for start, end in spans for place in range(start, end)]
    assert payload.loss_mask.nonzero()[0].tolist() == trained
    assert rollout.generated_tokens == len(trained)
    assert set(payload.weight_version[payload.loss_mask]) == {7}
    assert set(payload.weight_version[~payload.loss_mask]) == {NOT_SAMPLED}


def test_what_the_engine_is_asked_is_what_was_logged(lab: Lab) -> None:
    sampler = lab.says(*_expert(lab, lab.tasks[0]))
    finished = _run(lab, sampler)
    assert finished.payload is not None
    ids = finished.payload.token_ids.tolist()
    starts = [turn.span[0] for turn in finished.rollout.contexts[0].turns if turn.role == "assistant"]
    assert [list(asked.prompt_ids) for asked in sampler.asked] == [ids[:start] for start in starts]
    assert len({asked.params.seed for asked in sampler.asked}) == len(sampler.asked)


def test_a_demonstration_is_the_same_loop_without_a_policys_logprobs(lab: Lab) -> None:
    turns = lab.domain.demonstrate(lab.tasks[0], lab.store, harness="edit-lines", seed=1)
    sampler = ExpertSampler(turns, lab.renderer)
    finished = asyncio.run(_once(lab, sampler))
    assert finished.rollout.verdict is not None
    assert finished.rollout.verdict.passed
    assert finished.payload is not None
    assert set(finished.payload.weight_version.tolist()) == {NOT_SAMPLED}


async def _once(lab: Lab, sampler: ExpertSampler) -> Finished:
    return await run_rollout(lab.attempt(), sampler, lab.house())


def test_doing_nothing_fails_and_is_no_error(lab: Lab) -> None:
    finished = _run(lab, lab.says("<submit/>"))
    assert finished.rollout.status is RolloutStatus.DONE
    assert finished.rollout.verdict is not None
    assert not finished.rollout.verdict.passed
    assert finished.rollout.error is None


def test_a_malformed_turn_is_flagged_whole_and_told(lab: Lab) -> None:
    finished = _run(lab, lab.says("<edit path='x>", "<submit/>"))
    turns = finished.rollout.contexts[0].turns
    broken = next(turn for turn in turns if turn.role == "assistant")
    assert broken.flags
    assert {flag.span for flag in broken.flags} == {broken.span}
    assert "No action read" in next(turn.text for turn in turns if turn.role == "tool")


def test_running_out_of_turns_is_truncated_but_judged(lab: Lab) -> None:
    expert = [text for text in _expert(lab, lab.tasks[0]) if "<edit" in text]
    finished = _run(lab, lab.says(*expert, "<test/>", "<test/>"))
    assert finished.rollout.status is RolloutStatus.TRUNCATED
    assert finished.rollout.verdict is not None
    assert finished.rollout.verdict.passed


def test_a_full_context_ends_the_rollout(lab: Lab) -> None:
    opening = len(lab.renderer.opening_ids(load_harness("edit-lines", max_turns=3).opening(lab.tasks[0])))
    finished = _run(lab, lab.says("<test/>", "<test/>"), context_tokens=opening + 20)
    assert finished.rollout.status is RolloutStatus.TRUNCATED
    assert finished.rollout.num_turns == 1


def test_an_observation_is_cut_to_its_tokens_and_says_so(lab: Lab) -> None:
    finished = _run(lab, lab.says("<test/>"), observation_tokens=16)
    tool = next(turn for turn in finished.rollout.contexts[0].turns if turn.role == "tool")
    assert tool.span[1] - tool.span[0] <= 16
    assert tool.tool_result is not None


def test_a_slow_engine_is_a_timeout_of_that_rollout(lab: Lab) -> None:
    slow = ScriptedSampler(lambda prompt, params: lab.renderer.assistant_ids("<submit/>"), delay_s=10.0)
    finished = _run(lab, slow)
    assert finished.rollout.status is RolloutStatus.TIMEOUT
    assert finished.rollout.error is not None
    assert finished.rollout.error.where == "sampler"
    assert finished.rollout.verdict is None
    assert finished.rollout.reward is None


def test_a_box_that_dies_is_an_error_of_that_rollout_only(lab: Lab) -> None:
    async def go() -> list[list[Finished]]:
        house = lab.house()
        opened = house.open_box

        def open_box(task: Task, tree: Path, mounts: object) -> object:
            if task.task_id == lab.tasks[1].task_id:
                raise SandboxLost("the box died")
            return opened(task, tree, mounts)  # type: ignore[arg-type]

        house = replace(house, open_box=open_box)  # type: ignore[arg-type]
        plans = [
            GroupPlan(group_id=f"g{n}", task=task, harness="edit-lines", step=1, size=2)
            for n, task in enumerate(lab.tasks)
        ]
        return await sample_groups(
            plans, lambda _: lab.says("<submit/>"), house, seed=1, on_done=lambda done, total: None
        )

    good, bad = asyncio.run(go())
    assert {item.rollout.status for item in good} == {RolloutStatus.DONE}
    assert {item.rollout.status for item in bad} == {RolloutStatus.ERROR}
    assert bad[0].rollout.error is not None
    assert bad[0].rollout.error.type == "SandboxLost"
    assert all(item.payload is None for item in bad)


def test_a_back_end_that_is_gone_ends_the_step(lab: Lab) -> None:
    """A Docker daemon that does not answer: every next rollout would fail alike."""

    def open_box(*given: object) -> object:
        raise SandboxUnavailable("no Docker daemon answers", hint="start it")

    async def go() -> None:
        await run_rollout(lab.attempt(), lab.says("<submit/>"), replace(lab.house(), open_box=open_box))  # type: ignore[arg-type]

    with pytest.raises(MachineLacks, match="no Docker daemon answers") as caught:
        asyncio.run(go())
    assert caught.value.hint == "start it"


def test_a_dead_engine_ends_the_step_and_closes_every_box(lab: Lab) -> None:
    opened: list[object] = []

    async def go() -> None:
        house = lab.house()
        open_box = house.open_box

        def remember(*args: object) -> object:
            box = open_box(*args)  # type: ignore[arg-type]
            opened.append(box)
            return box

        house = replace(house, open_box=remember)  # type: ignore[arg-type]
        plans = [GroupPlan(group_id="g", task=lab.tasks[0], harness="edit-lines", step=1, size=6)]
        dead = ScriptedSampler(
            lambda prompt, params: lab.renderer.assistant_ids("<test/>"), fail_requests=(3,), delay_s=0.05
        )
        await sample_groups(plans, lambda _: dead, house, seed=1, on_done=lambda done, total: None)

    with pytest.raises(EngineFailed):
        asyncio.run(go())
    assert opened
    for box in opened:
        with pytest.raises(Exception, match=r"(?i)clos|lost|dead|gone|froze"):
            box.exec("true")  # type: ignore[attr-defined]


def test_equal_changes_are_verified_once(lab: Lab) -> None:
    async def go() -> tuple[House, list[Finished]]:
        house = lab.house()
        plans = [GroupPlan(group_id="g", task=lab.tasks[0], harness="edit-lines", step=1, size=4)]
        groups = await sample_groups(
            plans, lambda _: lab.says("<submit/>"), house, seed=1, on_done=lambda done, total: None
        )
        return house, groups[0]

    house, finished = asyncio.run(go())
    assert len(house.verdicts) == 1
    assert house.verdicts_reused == len(finished) - 1
    assert len({item.rollout.diff for item in finished}) == 1


def test_a_step_on_disk_comes_back_as_it_was(lab: Lab, tmp_path: Path) -> None:
    finished = _run(lab, lab.says(*_expert(lab, lab.tasks[0])))
    store = RolloutStore(tmp_path)
    store.write(3, [finished])
    assert store.steps() == [3]
    assert next(store.rollouts(3)) == finished.rollout
    payload = store.payloads(3)[finished.rollout.rollout_id]
    assert finished.payload is not None
    assert payload.token_ids.tolist() == finished.payload.token_ids.tolist()
    assert payload.sampler_logprobs.tolist() == finished.payload.sampler_logprobs.tolist()


def test_a_task_that_shows_an_image_is_refused_where_nobody_sees_it(lab: Lab) -> None:
    task = replace(lab.tasks[0], images=("images/a.png",))
    rollout = _run(lab, lab.says(), task).rollout
    assert rollout.status is RolloutStatus.ERROR
    assert rollout.error is not None
    assert (rollout.error.type, rollout.verdict) == ("NeedsSight", None)
    assert f"task {task.task_id} " in rollout.error.message


def test_the_record_of_a_policy_that_sees_carries_the_images(lab: Lab) -> None:
    async def go() -> Finished:
        house = replace(lab.house(), sees=True)
        task = replace(lab.tasks[0], images=("images/a.png",))
        return await run_rollout(lab.attempt(task), lab.says(*_expert(lab, lab.tasks[0])), house)

    rollout = asyncio.run(go()).rollout
    assert rollout.status is RolloutStatus.DONE
    assert [turn.images for turn in rollout.contexts[0].turns][:3] == [(), ("images/a.png",), ()]
