"""A scripted expert for generated pictures: a line put right or the file written, and the submit.

`seed` varies the way (a look at the file first, one line or the whole file), never the picture.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from mimo.domains.base import TaskStore
from mimo.domains.visual.verify import wanted_of
from mimo.errors import RecipeError
from mimo.harnesses import load_harness
from mimo.harnesses.base import ExpertTurn, Harness
from mimo.types import Task, ToolCall

MAX_TURNS = 3
_SUBMIT = ToolCall(name="submit", arguments={})


def can_demonstrate(task: Task) -> bool:
    """Generated training tasks only: no held-out family is ever shown to a policy."""
    return task.source.kind == "generated" and task.split == "train"


def demonstration(task: Task, store: TaskStore, *, harness: str, seed: int) -> Sequence[ExpertTurn]:
    """Two or three turns that make the picture and submit.

    Raises:
        RecipeError: a held-out or foreign task, or a harness that is not for the domain.
    """
    if not can_demonstrate(task):
        raise RecipeError(f"task {task.task_id} ({task.family}, {task.split}) has no demonstration")
    acting = load_harness(harness, max_turns=MAX_TURNS)
    if task.domain not in acting.domains:
        raise RecipeError(f"the harness {harness!r} is not for the {task.domain} domain")
    rng = random.Random(f"expert/{task.task_id}/{seed}")
    file = wanted_of(task.verifier.expect).file
    before = (store.snapshot(task) / file).read_text()
    after = (store.private(task) / "solution/files" / file).read_text()
    edits = _says_edits(acting)
    calls = [_change(file, before, after, edits=edits, whole=rng.random() < 0.2)]
    if rng.random() < 0.15:
        calls.insert(0, ToolCall(name="look" if edits else "read", arguments={"path": file}))
    return [ExpertTurn(text=acting.say(call), facts={"action": call.name}) for call in (*calls, _SUBMIT)]


def _says_edits(acting: Harness) -> bool:
    """Whether the harness has the tools that replace lines."""
    try:
        acting.say(ToolCall(name="edit", arguments={"path": "a", "line": [1, 1], "body": "b"}))
    except ValueError:
        return False
    return True


def _change(file: str, before: str, after: str, *, edits: bool, whole: bool) -> ToolCall:
    """The one call that turns `before` into `after`, both whole lines."""
    old, new = before.splitlines(), after.splitlines()
    same = next(n for n, (one, two) in enumerate(zip(old, new, strict=False)) if one != two)
    one_line = len(old) == len(new)
    if edits:
        last = same + 1 if one_line else len(old)
        body = "\n".join(new[same : same + 1] if one_line else new[same:])
        return ToolCall(name="edit", arguments={"path": file, "line": [same + 1, last], "body": body})
    if one_line and not whole:
        return ToolCall(name="shell", arguments={"command": f"sed -i '{same + 1}c {new[same]}' {file}"})
    return ToolCall(name="write", arguments={"path": file, "content": after})
