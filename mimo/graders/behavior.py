"""Facts of how a policy worked, read from the transcript's tool calls (not from what it says of itself)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from mimo.graders.ground import Ground
from mimo.types import Context, Rollout, RolloutStatus, ToolCall, Turn, record

Kind = Literal["read", "edit", "test", "submit", "other"]
KINDS: Mapping[str, Kind] = {
    "look": "read",
    "read": "read",
    "view": "read",
    "cat": "read",
    "grep": "read",
    "search": "read",
    "edit": "edit",
    "write": "edit",
    "replace": "edit",
    "test": "test",
    "run_tests": "test",
    "submit": "submit",
    "finish": "submit",
}
"""What a harness's tool does, by its name; tools with a `command` are told apart by the command."""
_COMMANDS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("test", re.compile(r"\b(pytest|unittest|tox|nox|make (test|check))\b")),
    ("edit", re.compile(r"\bsed\b[^|;]*\s-i|(?<![<>=-])>{1,2}\s*[\w./]|\bapply_patch\b|\btee\b|\bpatch -p")),
    ("read", re.compile(r"^\s*(cat|head|tail|grep|rg|sed -n|ls|find|nl|less|git (show|diff|log|grep))\b")),
)
_FAILED_TEST = re.compile(
    r"^(FAIL|FAILED|ERROR|E  )|\b\d+ (failed|errors?)\b|took too long|^Stopped:", re.MULTILINE
)
_PASSED_TEST = re.compile(r"\b[1-9]\d* passed\b|^OK\b", re.MULTILINE)
_NO_EFFECT = re.compile(r"^(Cannot |No action read)|^\S+ (has \d+ lines\.|is too large)")


@record
class BehaviorFacts:
    """Counts over assistant turns. `places` names the turns (from 1) behind a count, as evidence.

    `tested_after_edit`: the visible tests ran after the last edit that took effect; None without an edit.
    `last_test_passed`: what that last run showed; None if there was none or it cannot be told.
    `tests_seen_before_edit`: the visible tests were read or run before the first such edit; None without one.
    """

    turns: int
    malformed: int
    edits: int
    blind_edits: int
    failed_edits: int
    repeated_edits: int
    repeated_actions: int
    unrelated_edits: int
    tests: int
    tested_after_edit: bool | None
    last_test_passed: bool | None
    tests_seen_before_edit: bool | None
    submitted: bool
    places: dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Step:
    """One assistant turn: its number from 1, its call, what came back (cut)."""

    number: int
    turn: Turn
    call: ToolCall | None
    kind: Kind
    answer: str
    exit_code: int | None

    @property
    def path(self) -> str:
        """The file it names, "" for none."""
        return str(self.call.arguments.get("path", "")) if self.call is not None else ""

    @property
    def refused(self) -> bool:
        """The tool says that it did nothing: no such file, no such lines, nothing read."""
        return bool(_NO_EFFECT.match(self.answer))

    @property
    def took_effect(self) -> bool:
        """An edit that the tool carried out."""
        return self.kind == "edit" and not self.refused and self.exit_code in (0, None)

    @property
    def outcome(self) -> bool | None:
        """What it showed as a run of the tests."""
        return test_outcome(self.answer, self.exit_code)


def behavior_facts(rollout: Rollout, ground: Ground) -> BehaviorFacts:
    """The facts of the rollout's contexts, read as one sequence of turns."""
    steps = list(steps_of(rollout.contexts))
    opening = " ".join(t.text for c in rollout.contexts for t in c.turns if t.role in ("system", "user"))
    edits = [step for step in steps if step.took_effect]
    tests = [step for step in steps if step.kind == "test"]
    last = edits[-1].number if edits else None
    final = tests[-1] if tests and last is not None and tests[-1].number > last else None
    related = ground.related
    places = {
        "malformed": [step for step in steps if step.turn.flags],
        "edits": edits,
        "blind_edits": _blind(steps, opening, ground),
        "failed_edits": [step for step in steps if step.kind == "edit" and not step.took_effect],
        "repeated_edits": repeated(edits, by_place=True),
        "repeated_actions": repeated(steps, by_place=False),
        "unrelated_edits": [step for step in edits if related and step.path and step.path not in related],
        "tests": tests,
    }
    return BehaviorFacts(
        turns=len(steps),
        **{name: len(rows) for name, rows in places.items()},
        tested_after_edit=None if last is None else final is not None,
        last_test_passed=None if final is None else test_outcome(final.answer, final.exit_code),
        tests_seen_before_edit=any(_shows_tests(s, ground) for s in steps[: edits[0].number])
        if edits
        else None,
        submitted=rollout.status is RolloutStatus.DONE,
        places={name: tuple(step.number for step in rows)[:20] for name, rows in places.items() if rows},
    )


def kind_of(call: ToolCall | None) -> Kind:
    """What a tool call does."""
    if call is None:
        return "other"
    command = call.arguments.get("command")
    if isinstance(command, str):
        head = command[:2000]
        return next((kind for kind, pattern in _COMMANDS if pattern.search(head)), "other")
    return KINDS.get(call.name, "other")


def steps_of(contexts: tuple[Context, ...]) -> Iterator[Step]:
    """The assistant turns of the contexts, read as one sequence."""
    number = 0
    for context in contexts:
        turns = context.turns
        for place, turn in enumerate(turns):
            if turn.role != "assistant":
                continue
            number += 1
            answer = turns[place + 1] if place + 1 < len(turns) and turns[place + 1].role == "tool" else None
            result = None if answer is None else answer.tool_result
            call = turn.tool_calls[0] if turn.tool_calls else None
            yield Step(
                number,
                turn,
                call,
                kind_of(call),
                "" if answer is None else answer.text[:20_000],
                None if result is None else result.exit_code,
            )


def _shows_tests(step: Step, ground: Ground) -> bool:
    return step.kind == "test" or (step.kind == "read" and step.path in ground.tests)


def _blind(steps: list[Step], opening: str, ground: Ground) -> list[Step]:
    """Edits of files whose text the policy had not been shown: neither in the task nor by looking."""
    seen = {path for path in ground.base if re.search(rf"(?m)^{re.escape(path)}:\n1 ", opening)}
    everything = False
    blind = []
    for step in steps:
        if step.took_effect and step.path and step.path not in seen and not everything:
            blind.append(step)
        if step.kind == "read" or step.took_effect:
            everything = everything or (step.kind == "read" and not step.path)
            seen.add(step.path)
    return blind


def repeated(steps: list[Step], *, by_place: bool) -> list[Step]:
    """Steps that do again what one before did: the same lines edited, or the same call, no edit between."""
    seen: set[str] = set()
    again = []
    for step in steps:
        if step.call is None:
            continue
        place = [step.path, step.call.arguments.get("line")]
        key = repr(place if by_place else [step.call.name, sorted(step.call.arguments.items(), key=repr)])
        if key in seen and (by_place or not step.took_effect):
            again.append(step)
        if step.took_effect and not by_place:
            seen.clear()
        seen.add(key)
    return again


def test_outcome(answer: str, exit_code: int | None) -> bool | None:
    """What a run of the tests showed, by the harness's exit code and the runner's words; None = unclear."""
    if _FAILED_TEST.search(answer) or exit_code not in (0, None):
        return False
    return True if _PASSED_TEST.search(answer) else None
