"""A scripted expert for generated programs: read the source, write the input, run, submit, in any harness.

`seed` varies the way (which files are read, whether the program is run before the submit), never the input.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from mimo.domains.base import TaskStore
from mimo.domains.cyber.runtime import COMMAND, INPUT
from mimo.errors import RecipeError
from mimo.harnesses import load_harness
from mimo.harnesses.base import ExpertTurn
from mimo.harnesses.write_input import WriteInput, escaped
from mimo.types import Task, ToolCall

MAX_TURNS = 5


def can_demonstrate(task: Task) -> bool:
    """Generated training tasks only: no held-out family is ever shown to a policy."""
    return task.source.kind == "generated" and task.split == "train"


def demonstration(task: Task, store: TaskStore, *, harness: str, seed: int) -> Sequence[ExpertTurn]:
    """Two to five turns that show the bug and submit; code that stands in the instruction is not read again.

    Raises:
        RecipeError: a held-out or foreign task, or a harness the expert does not speak.
    """
    if not can_demonstrate(task):
        raise RecipeError(f"task {task.task_id} ({task.family}, {task.split}) has no demonstration")
    acting = load_harness(harness, max_turns=MAX_TURNS)
    if task.domain not in acting.domains:
        raise RecipeError(f"the harness {harness!r} is not for the {task.domain} domain")
    rng = random.Random(f"expert/{task.task_id}/{seed}")
    data = (store.private(task) / "solution/files" / INPUT).read_bytes()
    calls = [] if task.verifier.expect.get("shown") else _reading(task, rng)
    calls.append(ToolCall(name="input", arguments={"body": escaped(data)}))
    if rng.random() < 0.7:
        calls.append(ToolCall(name="run", arguments={}))
    calls.append(ToolCall(name="submit", arguments={}))
    if not isinstance(acting, WriteInput):
        calls = [_in_general_words(call, data) for call in calls]
    return [ExpertTurn(text=acting.say(call), facts={"action": call.name}) for call in calls]


def _in_general_words(call: ToolCall, data: bytes) -> ToolCall:
    """The same with the tools of any harness: read, write, shell."""
    if call.name == "look":
        return ToolCall(name="read", arguments=call.arguments)
    if call.name == "run":
        return ToolCall(name="shell", arguments={"command": COMMAND})
    if call.name != "input":
        return call
    if data.endswith(b"\n") and all(32 <= byte < 127 or byte == 10 for byte in data):
        return ToolCall(name="write", arguments={"path": INPUT, "content": data.decode()})
    octal = "".join(_octal(byte) for byte in data)
    return ToolCall(name="shell", arguments={"command": f"printf '%b' '{octal}' > {INPUT}"})


def _octal(byte: int) -> str:
    """A byte as `printf %b` reads it; letters and digits stand for themselves."""
    return chr(byte) if chr(byte).isascii() and chr(byte).isalnum() else f"\\0{byte:03o}"


def _reading(task: Task, rng: random.Random) -> list[ToolCall]:
    """Looks at the planted file and, more often than not, at the one with main."""
    planted = str(task.verifier.expect["file"])
    sources = task.verifier.expect["sources"]
    mains = [str(path) for path in sources if "/main." in str(path)] if isinstance(sources, list) else []
    paths = [planted, *(mains if rng.random() < 0.7 else [])]
    return [ToolCall(name="look", arguments={"path": path}) for path in paths]
