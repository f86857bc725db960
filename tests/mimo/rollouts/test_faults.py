"""Which turns of a recorded rollout count as faulty, and which do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from mimo.rollouts.corrections import KINDS
from mimo.rollouts.faults import WITHHELD, faults
from mimo.types import Context, HackFinding, HackVerdict, Rollout, Turn
from tests.mimo.graders.made import EDIT, GOOD, LOOK, PATH, RED, SUBMIT, TEST, Step, rollout

MISSES: Step = ("edit", {"path": PATH, "line": [99, 99], "body": "x"}, f"{PATH} has 14 lines.\nLast turn.")
GARBLED: Step = ("", {}, "No action read. Use one of look, edit, test, submit.")
READS: Step = ("bash", {"command": "unzip -p w.whl"}, "the solution's text")


@pytest.mark.parametrize(
    ("steps", "flagged", "expected"),
    [
        ((GARBLED, EDIT, TEST, SUBMIT), (1,), [(0, "malformed-call")]),
        ((GARBLED, EDIT, TEST, SUBMIT), (), []),
        ((MISSES, EDIT, TEST, SUBMIT), (), [(0, "refused-call")]),
        ((LOOK, LOOK, EDIT, TEST, SUBMIT), (), [(1, "repeated-call")]),
        ((EDIT, SUBMIT), (), [(1, "submit-untested")]),
        ((LOOK, SUBMIT), (), [(1, "submit-unchanged")]),
        ((MISSES, SUBMIT), (), [(0, "refused-call"), (1, "submit-unchanged")]),
        ((EDIT, RED, SUBMIT), (), [(0, "edit-fails-tests"), (2, "submit-failing")]),
        ((EDIT, RED, LOOK), (), [(0, "edit-fails-tests")]),
        ((EDIT, RED, EDIT, TEST, SUBMIT), (), []),
        (GOOD, (), []),
    ],
)
def test_the_faults_of_a_failed_rollout(
    steps: Sequence[Step], flagged: Sequence[int], expected: list[tuple[int, str]]
) -> None:
    found = faults(rollout("a", steps, passed=False, flagged=flagged), None)
    assert [(item.turn, item.kind) for item in found] == expected
    assert {item.kind for item in found} <= set(KINDS)
    for item in found:
        assert item.text == f"<{steps[item.turn][0]}/>"
        assert item.observation == ("" if steps[item.turn] is SUBMIT else steps[item.turn][2])


@pytest.mark.parametrize("passed", [True, None])
def test_how_it_was_handed_in_is_no_fault_unless_the_verifier_fails_it(passed: bool | None) -> None:
    assert faults(rollout("a", (EDIT, SUBMIT), passed=passed), None) == []
    assert [item.kind for item in faults(rollout("a", (MISSES, EDIT, SUBMIT), passed=passed), None)] == [
        "refused-call"
    ]


def test_a_confirmed_hack_is_the_turn_its_evidence_names_and_its_output_is_withheld() -> None:
    made = rollout("a", (LOOK, READS, EDIT, SUBMIT), passed=True)
    lines = (
        "context 0 turn 3 output 12ab holds 2 words of the reference: B04 (evidence)",
        "context 0 turn 5: C01",
    )
    finding = HackFinding(verdict=HackVerdict.CONFIRMED, routes=("B04", "C01"), evidence=lines)
    (found,) = faults(made, finding)
    assert (found.turn, found.kind, found.text, found.observation) == (1, "hack", "<bash/>", WITHHELD)
    assert faults(made, replace(finding, verdict=HackVerdict.SUSPECTED)) == []


def test_cut_turns_and_single_turns_after_a_history_are_left_out() -> None:
    made = rollout("a", (GARBLED, EDIT, TEST, SUBMIT), passed=False, flagged=(1,))
    turns = made.contexts[0].turns
    cut = replace(
        made, contexts=(_context((turns[0], replace(turns[1], finish_reason="length"), *turns[2:])),)
    )
    assert faults(cut, None) == []
    single = replace(made, num_turns=1, contexts=(_context(turns[:2] + turns[2:4], parent="other"),))
    assert [turn.role for turn in single.contexts[0].turns] == ["user", "assistant", "tool", "assistant"]
    assert faults(single, None) == []


def test_a_rollout_that_failed_before_its_first_turn_has_none() -> None:
    empty: Rollout = replace(rollout("a", (), passed=None), contexts=())
    assert faults(empty, None) == []


def _context(turns: Sequence[Turn], parent: str | None = None) -> Context:
    return Context(context_id="0", parent=parent, turns=tuple(turns))
