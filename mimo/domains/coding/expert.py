"""A scripted expert for generated tasks: the reference's edit, said in a harness's own words.

`seed` varies the way (looking at the tests first, running them before the submit), never the result.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from mimo.domains.base import TaskStore
from mimo.domains.coding.reference import reference_files
from mimo.errors import RecipeError
from mimo.harnesses import harness_maker, load_harness
from mimo.harnesses.base import ExpertTurn
from mimo.types import Task, ToolCall

MAX_TURNS = 3


def can_demonstrate(task: Task) -> bool:
    """Generated training tasks only: no held-out family is ever shown to a policy."""
    return task.source.kind == "generated" and task.split == "train"


def demonstration(task: Task, store: TaskStore, *, harness: str, seed: int) -> Sequence[ExpertTurn]:
    """Two or three turns that repair the task and submit.

    Raises:
        RecipeError: a held-out or foreign task, or a harness the expert does not speak.
    """
    refuse_foreign(task, harness)
    acting = load_harness(harness, max_turns=MAX_TURNS)
    path, line, code = one_line_edit(store.snapshot(task), store.private(task))
    rng = random.Random(f"expert/{task.task_id}/{seed}")
    edit = ToolCall(name="edit", arguments={"path": path, "line": [line, line], "body": code})
    calls = [edit, ToolCall(name="submit", arguments={})]
    if not task.verifier.expect.get("shown"):
        calls.insert(0, ToolCall(name="look", arguments={"path": path}))
    else:
        way = rng.random()
        visible = task.verifier.expect.get("visible")
        if way < 0.5:
            calls.insert(1, ToolCall(name="test", arguments={}))
        elif way < 0.6 and isinstance(visible, list) and visible:
            calls.insert(0, ToolCall(name="look", arguments={"path": visible[0]}))
    return [ExpertTurn(text=acting.say(call), facts={"action": call.name}) for call in calls]


def refuse_foreign(task: Task, harness: str) -> None:
    """RecipeError for a held-out or foreign task, or a harness the expert does not speak."""
    if not can_demonstrate(task):
        raise RecipeError(f"task {task.task_id} ({task.family}, {task.split}) has no demonstration")
    if task.domain not in harness_maker(harness).domains:
        raise RecipeError(f"the harness {harness!r} is not for the {task.domain} domain")


def one_line_edit(base: Path, private: Path) -> tuple[str, int, str]:
    """Path, line number (from 1) and new code of a reference that changes exactly one line."""
    files = reference_files(private)
    if len(files) != 1:
        raise RecipeError(f"{private}: the reference changes {len(files)} files; the expert can say one line")
    path, data = next(iter(files.items()))
    old = (base / path).read_text().split("\n")
    new = (data or b"").decode().split("\n")
    places = [n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b]
    if len(old) != len(new) or len(places) != 1:
        raise RecipeError(f"{private}: the reference changes {len(places)} lines; the expert can say one")
    return path, places[0] + 1, new[places[0]].strip()
