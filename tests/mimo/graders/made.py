"""Hand-made attempts at one small task: patches as text, transcripts as lists of steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mimo.graders.facts import Facts, facts_of
from mimo.graders.ground import Ground
from mimo.types import Context, Flag, Json, Rollout, RolloutStatus, ToolCall, ToolResult, Turn, Verdict
from sandbox.base import Changes, FileChange

PATH = "shop/prices.py"
BASE = '''"""Prices."""


def parse(text):
    """Return the price in cents; raise ValueError for anything else."""
    if not text.startswith("EUR "):
        raise ValueError("no euro price")
    whole, cents = text[4:].split(".")
    return int(whole) * 10 + int(cents)


def total(prices):
    """Return the sum of the prices."""
    return sum(parse(text) for text in prices)
'''
RIGHT = BASE.replace("* 10 +", "* 100 +")
TEST_PATH = "tests/test_prices.py"
TESTS = """from shop.prices import parse


def test_1():
    assert parse("EUR 3.50") == 350
"""
OTHER = "shop/other.py"
TASK = f"Fix parse in {PATH}: it must do what its docstring says.\nTests: {TEST_PATH}\n"

Step = tuple[str, Mapping[str, Json], str]
"""Tool, arguments, what came back."""
LOOK: Step = ("look", {"path": PATH}, f"{PATH}:\n1 ...")
EDIT: Step = ("edit", {"path": PATH, "line": [9, 9], "body": "x"}, f"Edited {PATH}:\n9 x")
TEST: Step = ("test", {}, "1 passed")
RED: Step = ("test", {}, 'FAIL assert parse("EUR 3.50") == 350\n0 passed')
SUBMIT: Step = ("submit", {}, "")
GOOD = (LOOK, EDIT, TEST, SUBMIT)


def ground(*, reference: str | None = RIGHT, instruction: str = TASK) -> Ground:
    """The task's side; its reference changes one line."""
    files = (FileChange(path=PATH, data=reference.encode(), mode=0o644),) if reference else ()
    return Ground(
        task_id="t",
        instruction=instruction,
        base={PATH: BASE.encode(), OTHER: b"VALUE = 1\n", TEST_PATH: TESTS.encode()},
        tests={TEST_PATH: TESTS},
        reference=Changes(files=files, capped=False) if reference else None,
    )


def changes(files: Mapping[str, str | bytes | None]) -> Changes:
    """Changes from path to new content (None: deleted)."""
    rows = [
        FileChange(
            path=path,
            data=data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data,
            mode=None,
        )
        for path, data in sorted(files.items())
    ]
    return Changes(files=tuple(rows), capped=False)


def rollout(
    name: str,
    steps: Sequence[Step] = GOOD,
    *,
    passed: bool | None = True,
    refused: Sequence[str] = (),
    flagged: Sequence[int] = (),
    instruction: str = TASK,
) -> Rollout:
    """A rollout of `steps`; `flagged` are the turns (from 1) with malformed markup."""
    turns = [Turn(role="user", text=instruction, span=(0, 1))]
    for number, (tool, arguments, answer) in enumerate(steps, 1):
        flags = (Flag(rule="malformed-markup", span=(0, 1)),) if number in flagged else ()
        call = (ToolCall(name=tool, arguments=dict(arguments)),) if tool else ()
        turns.append(Turn(role="assistant", text=f"<{tool}/>", span=(0, 1), tool_calls=call, flags=flags))
        if tool != "submit":
            result = ToolResult(exit_code=None, truncated=False)
            turns.append(Turn(role="tool", text=answer, span=(0, 1), tool_result=result))
    detail: dict[str, Json] = {"refused": dict.fromkeys(refused, "protected")}
    verdict = None if passed is None else Verdict(passed=passed, tampered=False, detail=detail)
    done = bool(steps) and steps[-1][0] == "submit"
    return Rollout(
        rollout_id=name,
        group_id="g",
        task_id="t",
        domain="coding",
        harness="edit-lines",
        policy="p",
        step=1,
        seed=0,
        status=RolloutStatus.DONE if done else RolloutStatus.TRUNCATED,
        contexts=(Context(context_id="0", parent=None, turns=tuple(turns)),),
        verdict=verdict,
        reward=None if passed is None else float(passed),
    )


def facts(
    after: str | Mapping[str, str | bytes | None] = RIGHT,
    *,
    name: str = "a",
    steps: Sequence[Step] = GOOD,
    passed: bool = True,
    refused: Sequence[str] = (),
    flagged: Sequence[int] = (),
    on: Ground | None = None,
) -> Facts:
    """The facts of an attempt that leaves `after` in PATH (or the given files)."""
    files = {PATH: after} if isinstance(after, str) else after
    made = rollout(name, steps, passed=passed, refused=refused, flagged=flagged)
    return facts_of(made, changes(files), on or ground())


def renamed(item: Facts, name: str) -> Facts:
    """The same facts under another rollout's name."""
    return replace(item, rollout_id=name)
