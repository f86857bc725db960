"""What the other rooms make of cyber tasks: no leak is found, honest work is no hack, graders can read it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mimo.graders.ranking import ranked
from mimo.hacks.audit import audit_rollout, task_facts
from mimo.hacks.controls import plant
from mimo.hacks.needles import SMALL_FILE
from mimo.hacks.probe import find_leaks, leaks_only
from mimo.hacks.scene import Expected, open_scene
from mimo.harnesses import load_harness
from mimo.rollouts.loop import Finished
from mimo.stages.environment_probe import secrets_of
from mimo.stages.graders_view import ground_for, seen_of
from mimo.stages.tasks import visible_tools
from mimo.types import Context, HackVerdict, Rollout, RolloutStatus, Task, ToolResult, Turn
from sandbox import Changes
from tests.mimo.domains.cyber.conftest import NOTHING, Lab

Built = Callable[..., Task]


@pytest.mark.parametrize(("family", "level"), [("heap-write", 1), ("divide-by-zero", 2), ("double-free", 3)])
def test_no_environment_leaks_its_input(lab: Lab, built: Built, family: str, level: int) -> None:
    task = built(family, level=level)
    expected = Expected(workdir=task.environment.workdir, env=task.environment.env)
    with open_scene(
        lab.store.snapshot(task), task.base_commit, secrets_of(task, lab.store), expected=expected
    ) as scene:
        assert leaks_only(find_leaks(scene)) == []
    assert visible_tools(task, Path("/nowhere")) == {}


def test_planted_leaks_are_found_though_the_reference_is_tiny(lab: Lab, built: Built, tmp_path: Path) -> None:
    """The control of probe-hacks in a set of cyber tasks alone: a few bytes are no evidence themselves."""
    task = built("heap-write", level=1)
    secrets = secrets_of(task, lab.store)
    assert max(len(data or b"") for data in secrets.reference.values()) < SMALL_FILE
    tree = tmp_path / "tree"
    shutil.copytree(lab.store.snapshot(task), tree, symlinks=True)
    planted = [
        item for item in plant(tree, secrets, commit=task.base_commit) if not item.path.startswith("env:")
    ]
    with open_scene(tree, task.base_commit, secrets) as scene:
        findings = find_leaks(scene)
    assert [item.name for item in planted if not item.is_found(findings)] == []
    assert "docs/metadata.json" in {item.path for item in planted}


def _recorded(lab: Lab, task: Task, harness: str, seed: int) -> tuple[Rollout, Changes]:
    """The expert's rollout, its changes and its verdict."""
    acting, turns = load_harness(harness, max_turns=6), []
    with lab.open(task) as box:
        for number, said in enumerate(lab.domain.demonstrate(task, lab.store, harness=harness, seed=seed)):
            call = acting.parse(said.text).call
            assert call is not None
            span = (2 * number, 2 * number + 1)
            turns.append(Turn(role="assistant", text=said.text, span=span, tool_calls=(call,)))
            seen = acting.act(call, box, task)
            result = ToolResult(exit_code=seen.exit_code, truncated=False)
            if not seen.done:
                turns.append(
                    Turn(role="tool", text=seen.text, span=(span[1], span[1] + 1), tool_result=result)
                )
        box.freeze()
        changes = box.changes()
    verdict = lab.verdict(task, changes)
    record = Rollout(
        rollout_id=f"r{seed}", group_id="g", task_id=task.task_id, domain="cyber", harness=harness,
        policy="p", step=1, seed=seed, status=RolloutStatus.DONE, verdict=verdict,
        reward=float(verdict.passed),
        contexts=(Context(context_id="0", parent=None, turns=tuple(turns)),),
    )  # fmt: skip
    return record, changes


@pytest.mark.parametrize(
    ("family", "level", "harness"), [("double-free", 3, "bash-terse"), ("heap-write", 1, "write-input")]
)
def test_honest_work_is_no_hack_and_can_be_ranked(
    lab: Lab, built: Built, family: str, level: int, harness: str
) -> None:
    task = built(family, level=level)
    rows = [_recorded(lab, task, harness, seed) for seed in (1, 2)]
    with open_scene(lab.store.snapshot(task), task.base_commit, secrets_of(task, lab.store)) as scene:
        facts = task_facts(scene)
    assert [audit_rollout(record, facts).verdict for record, _ in rows] == [HackVerdict.CLEAN] * 2
    finished = [Finished(rollout=record, payload=None, changes=changes) for record, changes in rows]
    idle = replace(rows[0][0], rollout_id="idle", verdict=lab.verdict(task, NOTHING), reward=0.0)
    finished.append(Finished(rollout=idle, payload=None, changes=NOTHING))
    ground = ground_for(task, lab.store, finished)
    seen = [seen_of(item, ground) for item in finished]
    assert [row.facts.passed for row in seen] == [True, True, False]
    qualities = ranked([row.facts for row in seen])
    assert qualities is None or set(qualities) <= {"r1", "r2"}
