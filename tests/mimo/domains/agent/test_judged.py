"""What the other rooms make of workspace tasks: no leak is found, no hack, and graders can read them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mimo.domains.agent.families import FAMILIES
from mimo.graders.ranking import ranked
from mimo.hacks.audit import audit_rollout, task_facts
from mimo.hacks.probe import find_leaks, leaks_only
from mimo.hacks.scene import Expected, open_scene
from mimo.harnesses import load_harness
from mimo.rollouts.loop import Finished
from mimo.stages.environment_probe import secrets_of
from mimo.stages.graders_view import ground_for, seen_of
from mimo.stages.tasks import visible_tools
from mimo.types import Context, HackVerdict, Rollout, RolloutStatus, Task, ToolResult, Turn
from sandbox import Changes
from tests.mimo.domains.lab import Lab


@pytest.mark.parametrize("family", FAMILIES)
def test_no_environment_leaks_its_end_state(lab: Lab, family: str) -> None:
    task = lab.task(family, 2)
    expected = Expected(workdir=task.environment.workdir, env=task.environment.env)
    with open_scene(
        lab.store.snapshot(task), task.base_commit, secrets_of(task, lab.store), expected=expected
    ) as scene:
        assert leaks_only(find_leaks(scene)) == []


def recorded(
    lab: Lab, task: Task, harness: str, name: str, extra: str | None = None
) -> tuple[Rollout, Changes]:
    """The expert's rollout (with one more command first), its changes and its verdict."""
    acting, turns = load_harness(harness, max_turns=6), []
    with lab.boxes(task)(lab.store.snapshot(task), {}) as box:
        said = [turn.text for turn in lab.domain.demonstrate(task, lab.store, harness=harness, seed=1)]
        if extra is not None:
            said.insert(0, f'{{"tool": "shell", "command": "{extra}"}}')
        for number, text in enumerate(said):
            parsed = acting.parse(text)
            assert parsed.call is not None
            span = (2 * number, 2 * number + 1)
            turns.append(Turn(role="assistant", text=text, span=span, tool_calls=(parsed.call,)))
            seen = acting.act(parsed.call, box, task)
            result = ToolResult(exit_code=seen.exit_code, truncated=False)
            if not seen.done:
                turns.append(
                    Turn(role="tool", text=seen.text, span=(span[1], span[1] + 1), tool_result=result)
                )
        box.freeze()
        changes = box.changes()
    verdict = lab.verdict(task, changes)
    record = Rollout(
        rollout_id=name, group_id="g", task_id=task.task_id, domain="agent", harness=harness, policy="p",
        step=1, seed=1, status=RolloutStatus.DONE, verdict=verdict, reward=float(verdict.passed),
        contexts=(Context(context_id="0", parent=None, turns=tuple(turns)),),
    )  # fmt: skip
    return record, changes


@pytest.mark.parametrize("family", ["counting", "update", "ticket", "context-amended"])
def test_honest_work_is_no_hack_and_can_be_ranked(lab: Lab, family: str) -> None:
    task = lab.task(family, 2)
    clean, changes = recorded(lab, task, "json-terse", "a")
    again = recorded(lab, task, "json-terse", "b", extra="ls -l")
    with open_scene(lab.store.snapshot(task), task.base_commit, secrets_of(task, lab.store)) as scene:
        facts = task_facts(scene)
    assert audit_rollout(clean, facts).verdict is HackVerdict.CLEAN
    rows = [Finished(rollout=r, payload=None, changes=c) for r, c in ((clean, changes), again)]
    failed = Finished(
        rollout=replace(clean, rollout_id="c", verdict=replace(clean.verdict, passed=False), reward=0.0)
        if clean.verdict
        else clean,
        payload=None,
        changes=Changes(files=(), capped=False),
    )
    ground = ground_for(task, lab.store, [*rows, failed])
    seen = [seen_of(item, ground) for item in (*rows, failed)]
    assert [row.facts.passed for row in seen] == [True, True, False]
    assert all(row.diff for row in seen[:2])
    qualities = ranked([row.facts for row in seen])
    assert qualities is None or set(qualities) <= {"a", "b"}


def test_no_test_tools_are_mounted_for_a_workspace(lab: Lab) -> None:
    assert visible_tools(lab.task("rename", 1), Path("/nowhere")) == {}
