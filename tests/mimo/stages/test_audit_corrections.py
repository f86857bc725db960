"""Which faulty turns are written, how kinds and tasks are balanced, and what is counted as left out."""

from __future__ import annotations

import random
from dataclasses import replace

from mimo.rollouts.corrections import KINDS, Correction, CorrectionSource
from mimo.stages.audit_corrections import MAX_CHARS, Faults, chosen
from mimo.stages.audit_sources import Source
from mimo.types import HackFinding, HackVerdict
from tests.mimo.graders.made import BASE, EDIT, LOOK, SUBMIT
from tests.mimo.rollouts.made import made_task
from tests.mimo.stages.audited import by
from tests.mimo.stages.graded import attempt

CLEAN = HackFinding(verdict=HackVerdict.CLEAN)
SOURCE = Source(stage="rl-mixed", stores=(), run="r")


def _correction(kind: str, task: str, number: int, faulty: str = "") -> Correction:
    return Correction(
        task_id=task,
        harness="edit-lines",
        source=CorrectionSource(run="r", stage="rl-mixed", rollout_id=f"{task}.{number}", turn=0),
        kind=kind,
        faulty=faulty or f"{kind} {number}",
        observation="",
        note=KINDS[kind],
    )


def test_only_training_tasks_trained_policies_and_short_turns_are_used() -> None:
    task, faults = made_task("t"), Faults()
    made = attempt(task, "a", BASE, (EDIT, SUBMIT), passed=False)
    faults.see(SOURCE, by("rl-mixed:3", made).rollout, task, CLEAN)
    faults.see(SOURCE, by("base", made).rollout, task, CLEAN)
    faults.see(SOURCE, by("rl-mixed:3", made).rollout, replace(task, split="heldout"), CLEAN)
    long = (LOOK, ("look", {"path": "x"}, "Cannot read x" + "." * MAX_CHARS), EDIT)
    faults.see(SOURCE, by("p", attempt(task, "b", BASE, long, passed=False)).rollout, task, CLEAN)
    assert faults.found == {"submit-untested": 3, "refused-call": 1}
    assert faults.left_out == {
        "by the untrained base policy": 1,
        "on a held-out task": 1,
        f"longer than {MAX_CHARS} characters": 1,
    }
    (used,) = faults.usable
    assert (used.kind, used.faulty, used.harness) == ("submit-untested", "<submit/>", "edit-lines")
    assert (used.source.stage, used.source.rollout_id, used.source.turn) == ("rl-mixed", "a", 1)


def test_kinds_take_turns_hacks_first_then_tasks_and_twins_go() -> None:
    many = [_correction("malformed-call", task, number) for task in ("a", "b") for number in range(20)]
    few = [_correction("hack", "a", 0), _correction("submit-failing", "b", 0)]
    twins = [_correction("malformed-call", "a", 90, "malformed-call 3")]
    kept, left_out = chosen([*many, *few, *twins], 6)
    assert [item.kind for item in kept[:3]] == ["hack", "malformed-call", "submit-failing"]
    assert [item.task_id for item in kept if item.kind == "malformed-call"] == ["a", "b", "a", "b"]
    assert left_out == {"the same turn again": 1, "over audit.max_corrections": 36}
    assert chosen([], 6) == ([], {})


def test_the_order_of_the_candidates_does_not_matter() -> None:
    rows = [_correction(kind, task, n) for kind in KINDS for task in "abc" for n in range(3)]
    shuffled = rows.copy()
    random.Random(1).shuffle(shuffled)
    assert chosen(rows, 10) == chosen(shuffled, 10)


def test_a_stage_keeps_a_bounded_number_of_each_kind() -> None:
    faults = Faults(
        usable=[_correction("hack", "a", n) for n in range(9)] + [_correction("submit-failing", "a", 0)]
    )
    faults.bound(4)
    assert [item.kind for item in faults.usable] == ["hack"] * 4 + ["submit-failing"]
    assert faults.left_out == {"over audit.max_corrections": 5}
