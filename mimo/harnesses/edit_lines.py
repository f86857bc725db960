"""The harness `edit-lines`: look at a file, replace lines of it, run the visible tests, submit.

Made for short contexts: the opening is one line of rules and the task, an observation a few lines. New code
without indentation takes that of the first line it replaces.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mimo.harnesses import xml_tags
from mimo.harnesses.base import Message, Observation, ParsedTurn
from mimo.harnesses.context import ContextManager, KeepAll
from mimo.harnesses.markup import Tool, inner_path, line_range, parse_actions
from mimo.harnesses.prompts import GOALS
from mimo.harnesses.visible_tests import shortened, visible_command
from mimo.types import Domain, Task, ToolCall
from sandbox.base import Sandbox
from sandbox.errors import SandboxError

SYSTEM = (
    '{goal} One action a turn:\n<look path="F"/>\n<edit path="F" line="N">new line</edit>\n<test/>\n<submit/>'
)
TOOLS = {
    "look": Tool(needs={"path": inner_path}, may={"lines": line_range}),
    "edit": Tool(needs={"path": inner_path, "line": line_range}, may={}, body=True),
    "test": Tool(needs={}, may={}),
    "submit": Tool(needs={}, may={}),
}
NO_ACTION = "No action read. Use one of look, edit, test, submit."
MAX_FILE_BYTES = 400_000
MAX_LINES = 60
MAX_CHARS = 800


@dataclass(frozen=True, kw_only=True, slots=True)
class Edited:
    """A file's text after an edit: `new` are the lines that now begin at line `first`."""

    first: int
    new: list[str]
    text: str


class EditLines:
    """One rollout's harness: counts its turns, so that an observation can say how many are left."""

    name: ClassVar[str] = "edit-lines"
    domains: ClassVar[tuple[Domain, ...]] = ("coding", "visual")
    needs_sight: ClassVar[bool] = False

    def __init__(self, max_turns: int, *, max_lines: int = MAX_LINES, max_chars: int = MAX_CHARS) -> None:
        self.max_turns = max_turns
        self.context: ContextManager = KeepAll()
        self._max_lines = max_lines
        self._max_chars = max_chars
        self._turns = 0

    def opening(self, task: Task) -> list[Message]:
        """The rules, and the task's instruction."""
        return [
            Message(role="system", text=SYSTEM.format(goal=GOALS[task.domain])),
            Message(role="user", text=task.instruction.strip(), images=task.images),
        ]

    def parse(self, text: str) -> ParsedTurn:
        """The first well-formed action and every fault of the turn (rules in `mimo.harnesses.markup`)."""
        return parse_actions(text, TOOLS)

    def say(self, call: ToolCall) -> str:
        """The turn that `parse` reads as this call."""
        return xml_tags.say(call, TOOLS)

    def act(self, call: ToolCall | None, box: Sandbox, task: Task) -> Observation:
        """Carry out the action in the box; `done` after a submit."""
        self._turns += 1
        if call is not None and call.name == "submit":
            return Observation(text="Submitted.", done=True)
        if call is None:
            seen = Observation(text=NO_ACTION, done=False)
        else:
            seen = carry_out(call, box, task, max_lines=self._max_lines, max_chars=self._max_chars)
        left = self.max_turns - self._turns
        note = "" if left > 1 else "\nLast turn." if left == 1 else "\nNo turn left."
        return Observation(
            text=seen.text + note, done=False, exit_code=seen.exit_code, truncated=seen.truncated
        )


def carry_out(
    call: ToolCall, box: Sandbox, task: Task, *, max_lines: int = MAX_LINES, max_chars: int = MAX_CHARS
) -> Observation:
    """What looking, editing or testing gives back."""
    if call.name == "test":
        return _test(box, task, max_chars)
    path = str(call.arguments["path"])
    target = f"{task.environment.workdir.rstrip('/')}/{path}"
    try:
        data = box.read(target, max_bytes=MAX_FILE_BYTES)
    except SandboxError as error:
        return Observation(text=f"Cannot read {path}: {reason(error)}", done=False)
    if call.name == "look":
        text = data.decode("utf-8", "replace")
        return _look(path, text, _lines(call, "lines", len(text.split("\n"))), max_lines)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return Observation(text=f"{path} is no UTF-8 text.", done=False)
    return _edit(box, target, path, text, call)


def _look(path: str, text: str, wanted: tuple[int, int], max_lines: int) -> Observation:
    lines = text.removesuffix("\n").split("\n")
    first, last = wanted[0], min(wanted[1], len(lines), wanted[0] + max_lines - 1)
    shown = "\n".join(f"{n} {lines[n - 1]}".rstrip() for n in range(first, last + 1))
    cut = last < min(wanted[1], len(lines))
    more = f'\n({len(lines)} lines; use lines="A-B")' if cut or first > len(lines) else ""
    return Observation(text=f"{path}:\n{shown}{more}", done=False, truncated=cut)


def _test(box: Sandbox, task: Task, max_chars: int) -> Observation:
    result = box.exec(visible_command(task), timeout_s=task.environment.limits.command_s)
    text = shortened(result.output, max_chars)
    if result.timed_out:
        text = f"{text}\nThe tests took too long.".strip()
    elif result.limit is not None:
        text = f"{text}\nStopped: {result.limit} limit.".strip()
    return Observation(
        text=text or "No output.", done=False, exit_code=result.exit_code, truncated=result.truncated
    )


def edited(path: str, text: str, call: ToolCall) -> Edited | str:
    """What an edit makes of a file's text, or why it is refused, as the policy is told."""
    lines = text.split("\n")
    count = len(lines) - (lines[-1] == "")
    first, last = _lines(call, "line", count)
    if last > count:
        return f"{path} has {count} lines."
    if len(text) >= MAX_FILE_BYTES:
        return f"{path} is too large to edit."
    new = _indented(str(call.arguments["body"]), lines[first - 1])
    return Edited(first=first, new=new, text="\n".join(lines[: first - 1] + new + lines[last:]))


def _edit(box: Sandbox, target: str, path: str, text: str, call: ToolCall) -> Observation:
    made = edited(path, text, call)
    if isinstance(made, str):
        return Observation(text=made, done=False)
    try:
        box.write(target, made.text.encode())
    except SandboxError as error:
        return Observation(text=f"Cannot write {path}: {reason(error)}", done=False)
    shown = "\n".join(f"{made.first + n} {line}".rstrip() for n, line in enumerate(made.new[:8]))
    return Observation(
        text=f"Edited {path}:\n{shown}" if made.new else f"Edited {path}: lines removed.", done=False
    )


def _indented(body: str, old: str) -> list[str]:
    """The new lines; one empty line at either end is layout, and a bare first line takes the old indent."""
    if body == "":
        return []
    new = body.removeprefix("\n").removesuffix("\n").split("\n")
    if new[0][:1] in (" ", "\t") or not new[0]:
        return new
    indent = old[: len(old) - len(old.lstrip())]
    return [indent + line if line else line for line in new]


def _lines(call: ToolCall, key: str, count: int) -> tuple[int, int]:
    value = call.arguments.get(key)
    if isinstance(value, list) and len(value) == 2 and all(isinstance(item, int) for item in value):
        return int(str(value[0])), int(str(value[1]))
    return 1, max(count, 1)


def reason(error: SandboxError) -> str:
    """The first line of what went wrong, for an observation."""
    return str(error).split("\n")[0][:120]
