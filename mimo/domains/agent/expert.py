"""A scripted expert for generated workspace tasks: the family's steps, said in a harness's own words.

`seed` varies the way (looking around first, looking at the result before the submit), never the result.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

from mimo.domains.agent.write import STEPS
from mimo.domains.base import TaskStore
from mimo.errors import RecipeError
from mimo.harnesses import load_harness
from mimo.harnesses.base import ExpertTurn
from mimo.types import Task, ToolCall

MAX_TURNS = 4
_LOOK = ToolCall(name="shell", arguments={"command": "ls"})
_SUBMIT = ToolCall(name="submit", arguments={})


def can_demonstrate(task: Task) -> bool:
    """Generated training tasks only: no held-out family is ever shown to a policy."""
    return task.source.kind == "generated" and task.split == "train"


def demonstration(task: Task, store: TaskStore, *, harness: str, seed: int) -> Sequence[ExpertTurn]:
    """The turns that bring the workspace into its end state, and the submit; at most four.

    Raises:
        RecipeError: a held-out or foreign task, or a harness that is not for the domain.
    """
    if not can_demonstrate(task):
        raise RecipeError(f"task {task.task_id} ({task.family}, {task.split}) has no demonstration")
    acting = load_harness(harness, max_turns=MAX_TURNS)
    if task.domain not in acting.domains:
        raise RecipeError(f"the harness {harness!r} is not for the {task.domain} domain")
    rows = json.loads((store.private(task) / STEPS).read_bytes())
    calls = [ToolCall(name=row["name"], arguments=row["arguments"]) for row in rows]
    if len(calls) == 1 and random.Random(f"expert/{task.task_id}/{seed}").random() < 0.25:
        calls.insert(0, _LOOK)
    calls.append(_SUBMIT)
    return [ExpertTurn(text=acting.say(call), facts={"action": call.name}) for call in calls]
