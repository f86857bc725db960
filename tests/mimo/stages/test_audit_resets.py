"""Confirmed hacks must have been reset before statistics: recomputed from what rl-mixed left on disk."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mimo.errors import StageFailed
from mimo.rollouts.loop import Finished
from mimo.rollouts.store import RolloutStore
from mimo.stages.audit_hacks import HackRow
from mimo.stages.audit_resets import Resets, unreset, verify_resets
from mimo.stages.rl_loop import signal_rules
from mimo.types import Grades, HackFinding, HackVerdict, Rollout, Routing
from tests.mimo.rollouts.made import made_task
from tests.mimo.stages.audited import HACK, by, confirmed, mixed_group, trained
from tests.mimo.stages.graded import attempt, smoke_recipe

TASK = made_task("t")


def _verified(output: Path, *names: str, recorded: HackVerdict | None = HackVerdict.CONFIRMED) -> Resets:
    rows = []
    for rollout in RolloutStore(output).rollouts(1):
        if rollout.rollout_id in names:
            rows.append(_row(rollout, recorded))
    return verify_resets(output, rows, signal_rules(smoke_recipe()), {"t": TASK})


def _row(rollout: Rollout, recorded: HackVerdict | None) -> HackRow:
    return HackRow(
        stage="rl-mixed",
        policy="rl-mixed",
        rollout_id=rollout.rollout_id,
        group_id=rollout.group_id,
        task_id=rollout.task_id,
        step=1,
        passed=True,
        reward=rollout.reward,
        recorded=recorded,
        finding=HACK,
    )


def _graded(rows: list[Finished], **scores: float) -> list[Finished]:
    grades = Grades(grader="test", **scores)  # type: ignore[arg-type]
    return [replace(item, rollout=replace(item.rollout, grades=grades)) for item in rows]


@pytest.mark.parametrize("method", ["plain", "gar", "grs"])
def test_resets_as_the_stage_makes_them_are_verified(tmp_path: Path, method: Routing) -> None:
    rows = mixed_group(TASK)
    if method == "gar":
        rows = [*_graded(rows[:1], quality=1.0), *_graded(rows[1:2], quality=0.5), *rows[2:]]
    if method == "grs":
        rows = [
            *_graded(rows[:1], solution=0.9, behavior=0.8),
            *_graded(rows[1:], solution=0.5, behavior=1.0),
        ]
    trained(tmp_path, TASK, rows, method=method)
    found = _verified(tmp_path, "stolen")
    assert (found.confirmed, found.verified, found.groups, found.mismatches) == (1, 1, 1, ())
    found.check("report.html")


def test_a_group_whose_only_pass_was_stolen_is_verified_though_it_was_dropped(tmp_path: Path) -> None:
    rows = [confirmed(by("p", attempt(TASK, "stolen"))), by("p", attempt(TASK, "failed", passed=False))]
    trained(tmp_path, TASK, rows)
    assert _verified(tmp_path, "stolen").verified == 1


def test_a_reward_that_was_kept_fails_with_the_numbers_of_the_whole_group(tmp_path: Path) -> None:
    trained(tmp_path, TASK, mixed_group(TASK), audited=False)
    found = _verified(tmp_path, "stolen", recorded=HackVerdict.CLEAN)
    assert (found.verified, found.only_now, found.groups) == (0, 1, 1)
    names = {(item.rollout_id, item.name) for item in found.mismatches}
    assert ("stolen", "reward") in names
    assert {("honest.0", "advantage"), ("failed.0", "advantage")} <= names
    with pytest.raises(StageFailed) as caught:
        found.check("report.html")
    assert "1 of 1 confirmed hacks were not reset" in caught.value.message
    assert "stolen (hack): reward 1, expected 0" in caught.value.message
    assert re.search(r"stolen \(hack\): advantage 0\.4\d*, expected -0\.4;", caught.value.message)
    assert "--from rl-mixed" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda item: replace(item, reward=0.2), "reward"),
        (lambda item: replace(item, advantage=(item.advantage or 0.0) + 0.1), "advantage"),
    ],
)
def test_one_wrong_number_is_a_mismatch(
    tmp_path: Path, change: Callable[[Rollout], Rollout], name: str
) -> None:
    trained(tmp_path, TASK, mixed_group(TASK))
    store = RolloutStore(tmp_path)
    payloads = store.payloads(1)
    rows = [change(item) if item.rollout_id == "stolen" else item for item in store.rollouts(1)]
    store.write(1, [Finished(rollout=r, payload=payloads[r.rollout_id], changes=None) for r in rows])
    found = _verified(tmp_path, "stolen")
    assert [(item.rollout_id, item.name) for item in found.mismatches] == [("stolen", name)]
    assert found.verified == 0


def test_a_hack_that_failed_anyway_needs_no_reset(tmp_path: Path) -> None:
    trained(tmp_path, TASK, mixed_group(TASK))
    found = _verified(tmp_path, "stolen", "failed.0")
    assert (found.confirmed, found.verified, found.mismatches) == (2, 2, ())


def test_a_hack_without_a_group_record_is_a_mismatch_and_no_hack_is_none(
    tmp_path: Path,
) -> None:
    trained(tmp_path, TASK, mixed_group(TASK))
    (tmp_path / "groups" / "000001.jsonl").unlink()
    assert [item.name for item in _verified(tmp_path, "stolen").mismatches] == ["group record"]
    assert _verified(tmp_path) == Resets()


def test_where_no_groups_are_kept_the_rewards_are_looked_at() -> None:
    kept = attempt(TASK, "kept").rollout
    rows = [_row(kept, None), _row(replace(kept, rollout_id="reset", reward=0.0), None)]
    assert [item.rollout_id for item in unreset(rows)] == ["kept"]


def test_a_suspicion_resets_nothing(tmp_path: Path) -> None:
    suspected = HackFinding(verdict=HackVerdict.SUSPECTED, routes=("B04",))
    rows = [replace(i, rollout=replace(i.rollout, hack=suspected)) for i in mixed_group(TASK)]
    trained(tmp_path, TASK, rows)
    rewards = {item.rollout_id: item.reward for item in RolloutStore(tmp_path).rollouts(1)}
    assert rewards["stolen"] == 1.0
