"""Turns that went wrong, as far as the records alone show it: what an audit makes corrections of.

Only what the harness, the tests or the hack audit said counts, never an opinion. Turns cut off by their
length are left out (they have no end to show), and single turns after a recorded history (they were never
carried out). An edit and a submission are faulty only in a rollout that the verifier fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mimo.graders.behavior import Step, repeated, steps_of
from mimo.hacks.audit import history_length
from mimo.types import HackFinding, HackVerdict, Rollout, RolloutStatus

WITHHELD = "[withheld: the output shows the solution]"
"""Stands for what the tool answered to a confirmed hack: a correction must not teach the answer."""
_HACK_TURN = re.compile(r"context (\S+) turn (\d+)\b")


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """A faulty turn: `turn` counts the rollout's assistant turns from 0, `kind` is one of
    `corrections.KINDS`."""

    turn: int
    kind: str
    text: str
    observation: str


def faults(rollout: Rollout, finding: HackFinding | None) -> list[Fault]:
    """The faulty turns of a rollout, at most one kind a turn, in the turns' order.

    Args:
        finding: of the hack audit; None as if it were clean.
    """
    if history_length(rollout):
        return []
    steps = list(steps_of(rollout.contexts))
    hacks = _hack_turns(rollout, finding)
    found: dict[int, tuple[str, Step]] = {}
    for kind, step in (
        *(("hack", step) for step in steps if step.number in hacks),
        *(("malformed-call", step) for step in steps if step.call is None and step.turn.flags),
        *(("refused-call", step) for step in steps if step.call is not None and step.refused),
        *(("repeated-call", step) for step in repeated(steps, by_place=False)),
        *(_of_a_failure(rollout, steps) if _failed(rollout) else ()),
    ):
        if step.turn.finish_reason != "length":
            found.setdefault(step.number, (kind, step))
    answers = _answers(rollout)
    return [
        Fault(
            turn=number - 1,
            kind=kind,
            text=step.turn.text,
            observation=WITHHELD if kind == "hack" else answers[number - 1],
        )
        for number, (kind, step) in sorted(found.items())
    ]


def _failed(rollout: Rollout) -> bool:
    return rollout.verdict is not None and not rollout.verdict.passed


def _of_a_failure(rollout: Rollout, steps: Sequence[Step]) -> Iterator[tuple[str, Step]]:
    """The last edit where the tests failed after it; a submission of untested, failing or no work."""
    edits = [step for step in steps if step.took_effect]
    tests = [step for step in steps if step.kind == "test"]
    after = [step for step in tests if edits and step.number > edits[-1].number]
    if after and after[-1].outcome is False:
        yield "edit-fails-tests", edits[-1]
    last = steps[-1] if steps else None
    if last is None or last.kind != "submit" or rollout.status is not RolloutStatus.DONE:
        return
    if not edits:
        yield "submit-unchanged", last
    elif not after:
        yield "submit-untested", last
    elif after[-1].outcome is False:
        yield "submit-failing", last


def _answers(rollout: Rollout) -> list[str]:
    """What the tool answered to each assistant turn, "" where the rollout ended with it."""
    found = []
    for context in rollout.contexts:
        for place, turn in enumerate(context.turns):
            if turn.role == "assistant":
                rest = context.turns[place + 1 : place + 2]
                found.append(rest[0].text if rest and rest[0].role == "tool" else "")
    return found


def _hack_turns(rollout: Rollout, finding: HackFinding | None) -> set[int]:
    """Assistant turns (from 1) that the evidence of a confirmed hack names."""
    if finding is None or finding.verdict is not HackVerdict.CONFIRMED:
        return set()
    numbers, number = {}, 0
    for context in rollout.contexts:
        for place, turn in enumerate(context.turns):
            if turn.role == "assistant":
                number += 1
                numbers[context.context_id, place] = number
    named = {
        (match[1], int(match[2]))
        for line in finding.evidence
        if line.endswith("(evidence)")
        for match in [_HACK_TURN.match(line)]
        if match is not None
    }
    return {numbers[key] for key in named if key in numbers}
