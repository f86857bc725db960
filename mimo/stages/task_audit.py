"""The audit of tasks by their attempts: passing-but-wrong (weak tests), failing-but-right (too strict)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from mimo.graders.facts import Facts
from mimo.types import record


@record
class TaskFlag:
    """One attempt that speaks against its task's tests; for people, nothing is dropped because of it."""

    task_id: str
    rollout_id: str
    kind: Literal["passing-but-wrong", "failing-but-right"]
    evidence: tuple[str, ...]


def task_flags(task_id: str, attempts: Sequence[Facts]) -> list[TaskFlag]:
    """The flags of one task.

    A pass is suspect when it changes protected or unrelated files, holds the visible tests' own values, or
    leaves every file as it was; a failure when it is byte for byte the reference solution.
    """
    flags = []
    for facts in attempts:
        if facts.passed and (evidence := _against_a_pass(facts)):
            kind: Literal["passing-but-wrong", "failing-but-right"] = "passing-but-wrong"
        elif not facts.passed and facts.patch.same_as_reference and not facts.patch.protected:
            kind, evidence = "failing-but-right", ("the changes are those of the reference solution",)
        else:
            continue
        flags.append(TaskFlag(task_id=task_id, rollout_id=facts.rollout_id, kind=kind, evidence=evidence))
    return flags


def _against_a_pass(facts: Facts) -> tuple[str, ...]:
    patch = facts.patch
    rows = [f"{path}: changed, though protected" for path in patch.protected]
    rows += [f"{path}: not part of the task" for path in patch.unrelated]
    rows += [str(finding) for finding in patch.of("fitted")]
    if patch.lines == 0 and not patch.files:
        rows.append("passes without any change")
    return tuple(rows[:10])
