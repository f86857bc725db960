"""Facts of a transcript: what the tool calls show, whatever the policy says of itself."""

from __future__ import annotations

import pytest

from mimo.graders.behavior import behavior_facts, kind_of
from mimo.types import ToolCall
from tests.mimo.graders.made import (
    EDIT,
    GOOD,
    LOOK,
    OTHER,
    PATH,
    RED,
    SUBMIT,
    TASK,
    TEST,
    TEST_PATH,
    Step,
    ground,
    rollout,
)

EDIT_OTHER: Step = ("edit", {"path": OTHER, "line": [1, 1], "body": "y"}, f"Edited {OTHER}:\n1 y")
FAILED: Step = ("edit", {"path": PATH, "line": [99, 99], "body": "y"}, f"{PATH} has 14 lines.")
NOTHING: Step = ("", {}, "No action read. Use one of look, edit, test, submit.")


def test_a_good_transcript() -> None:
    facts = behavior_facts(rollout("a"), ground())
    assert (facts.turns, facts.edits, facts.tests, facts.malformed) == (4, 1, 1, 0)
    assert (facts.tested_after_edit, facts.last_test_passed, facts.submitted) == (True, True, True)
    assert facts.blind_edits == facts.failed_edits == facts.repeated_edits == facts.unrelated_edits == 0
    assert facts.places == {"edits": (2,), "tests": (3,)}


def test_an_edit_of_a_file_never_seen_is_blind() -> None:
    assert behavior_facts(rollout("a", (EDIT, TEST, SUBMIT)), ground()).places["blind_edits"] == (1,)
    assert behavior_facts(rollout("a", (LOOK, EDIT_OTHER)), ground()).places["blind_edits"] == (2,)


def test_the_tests_are_seen_by_reading_or_running_them() -> None:
    tests: Step = ("look", {"path": TEST_PATH}, "…")
    assert behavior_facts(rollout("a", (tests, EDIT)), ground()).tests_seen_before_edit is True
    assert behavior_facts(rollout("a", (RED, EDIT)), ground()).tests_seen_before_edit is True
    assert behavior_facts(rollout("a", (LOOK, EDIT, TEST)), ground()).tests_seen_before_edit is False
    assert behavior_facts(rollout("a", (LOOK, TEST)), ground()).tests_seen_before_edit is None


def test_a_file_that_the_task_shows_has_been_seen() -> None:
    shown = TASK + f"{PATH}:\n1 def parse(text):\n"
    assert behavior_facts(rollout("a", (EDIT, SUBMIT), instruction=shown), ground()).blind_edits == 0
    named = TASK + f"see {PATH}: 1 thing"
    assert behavior_facts(rollout("a", (EDIT, SUBMIT), instruction=named), ground()).blind_edits == 1


def test_tests_count_only_after_the_last_edit() -> None:
    assert behavior_facts(rollout("a", (LOOK, TEST, EDIT, SUBMIT)), ground()).tested_after_edit is False
    assert behavior_facts(rollout("a", (LOOK, EDIT, RED, EDIT, TEST)), ground()).last_test_passed is True
    red = behavior_facts(rollout("a", (LOOK, EDIT, TEST, EDIT, RED, SUBMIT)), ground())
    assert (red.tested_after_edit, red.last_test_passed) == (True, False)
    assert behavior_facts(rollout("a", (LOOK, SUBMIT)), ground()).tested_after_edit is None


def test_edits_without_effect_and_again_and_elsewhere() -> None:
    facts = behavior_facts(rollout("a", (LOOK, FAILED, EDIT, EDIT, EDIT_OTHER, LOOK, LOOK)), ground())
    assert facts.places["failed_edits"] == (2,)
    assert facts.places["repeated_edits"] == (4,)
    assert facts.places["unrelated_edits"] == (5,)
    assert facts.places["repeated_actions"] == (7,)
    assert (facts.edits, facts.submitted) == (3, False)


def test_looking_again_after_an_edit_is_no_repetition() -> None:
    assert behavior_facts(rollout("a", (LOOK, EDIT, LOOK, TEST)), ground()).repeated_actions == 0


def test_malformed_turns_come_from_the_parsers_flags() -> None:
    facts = behavior_facts(rollout("a", (NOTHING, *GOOD), flagged=[1]), ground())
    assert (facts.malformed, facts.turns) == (1, 5)


def test_a_claim_in_the_text_is_no_test_run() -> None:
    claim: Step = ("", {}, "All tests passed. 5 passed")
    facts = behavior_facts(rollout("a", (LOOK, EDIT, claim, SUBMIT)), ground())
    assert (facts.tests, facts.tested_after_edit, facts.last_test_passed) == (0, False, None)


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("cat a.py", "read"),
        ("sed -n 1,5p a.py", "read"),
        ("sed -i s/a/b/ a.py", "edit"),
        ("python -m pytest -q", "test"),
        ("echo x > a.py", "edit"),
        ("git diff", "read"),
        ("grep -rn 'a->b' .", "read"),
        ("python -c 'print(1)'", "other"),
        ("x" * 10_000, "other"),
    ],
)
def test_a_shell_command_is_told_by_what_it_does(command: str, kind: str) -> None:
    assert kind_of(ToolCall(name="bash", arguments={"command": command})) == kind


def test_a_rollout_without_turns() -> None:
    facts = behavior_facts(rollout("a", ()), ground())
    assert (facts.turns, facts.tested_after_edit, facts.last_test_passed) == (0, None, None)
