"""The harness `write-input`: look at a file, write the input of a program, run it, submit.

Made for short contexts: a run's observation is the exit code and the lines of the sanitizer's report that
tell what and where, or the program's last words.
"""

from __future__ import annotations

import re
from typing import ClassVar

from mimo.harnesses import xml_tags
from mimo.harnesses.base import Message, Observation, ParsedTurn
from mimo.harnesses.context import ContextManager, KeepAll
from mimo.harnesses.markup import Tool, inner_path, line_range, parse_actions
from mimo.harnesses.sanitizer_lines import no_report, telling_lines
from mimo.types import Domain, Task, ToolCall
from sandbox.base import Sandbox
from sandbox.errors import SandboxError

SYSTEM = (
    "Find the input that shows the bug. One action a turn:\n"
    '<look path="F"/>\n<input>text</input>\n<run/>\n<submit/>\n'
    r"Bytes in an input: \n \t \\ \x41"
)
TOOLS = {
    "look": Tool(needs={"path": inner_path}, may={"lines": line_range}),
    "input": Tool(needs={}, may={}, body=True),
    "run": Tool(needs={}, may={}),
    "submit": Tool(needs={}, may={}),
}
NO_ACTION = "No action read. Use one of look, input, run, submit."
MAX_FILE_BYTES = 400_000
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|(.)|$)", re.DOTALL)
_SIMPLE = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}


class WriteInput:
    """One rollout's harness: counts its turns, so that an observation can say how many are left."""

    name: ClassVar[str] = "write-input"
    domains: ClassVar[tuple[Domain, ...]] = ("cyber",)
    needs_sight: ClassVar[bool] = False

    def __init__(self, max_turns: int, *, max_lines: int = 80, max_chars: int = 600) -> None:
        self.max_turns = max_turns
        self.context: ContextManager = KeepAll()
        self._max_lines = max_lines
        self._max_chars = max_chars
        self._turns = 0

    def opening(self, task: Task) -> list[Message]:
        """The rules, and the task's instruction."""
        return [Message(role="system", text=SYSTEM), Message(role="user", text=task.instruction.strip())]

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
        seen = self._carry_out(call, box, task)
        left = self.max_turns - self._turns
        note = "" if left > 1 else "\nLast turn." if left == 1 else "\nNo turn left."
        return Observation(
            text=seen.text + note, done=False, exit_code=seen.exit_code, truncated=seen.truncated
        )

    def _carry_out(self, call: ToolCall | None, box: Sandbox, task: Task) -> Observation:
        if call is None:
            return Observation(text=NO_ACTION, done=False)
        if call.name == "run":
            return self._run(box, task)
        root = task.environment.workdir.rstrip("/")
        if call.name == "input":
            return _write(box, f"{root}/{task.verifier.expect['input']}", str(call.arguments["body"]))
        path = str(call.arguments["path"])
        try:
            data = box.read(f"{root}/{path}", max_bytes=MAX_FILE_BYTES)
        except SandboxError as error:
            return Observation(text=f"Cannot read {path}: {_short(error)}", done=False)
        return self._look(path, data, call)

    def _look(self, path: str, data: bytes, call: ToolCall) -> Observation:
        if b"\0" in data:
            return Observation(text=f"{path} is no text ({len(data)} bytes).", done=False)
        lines = data.decode("utf-8", "backslashreplace").removesuffix("\n").split("\n")
        wanted = call.arguments.get("lines")
        first, last = (int(str(n)) for n in wanted) if isinstance(wanted, list) else (1, len(lines))
        end = min(last, len(lines), first + self._max_lines - 1)
        cut = end < min(last, len(lines))
        more = f'\n({len(lines)} lines; use lines="A-B")' if cut or first > len(lines) else ""
        shown = "\n".join(lines[first - 1 : end])
        return Observation(text=f"{path}:\n{shown}{more}", done=False, truncated=cut)

    def _run(self, box: Sandbox, task: Task) -> Observation:
        result = box.exec(task.verifier.command, timeout_s=task.environment.limits.command_s)
        text = telling_lines(result.output, self._max_chars) or no_report(result.output, self._max_chars)
        ended = f"exit {result.exit_code}"
        if result.timed_out or result.limit is not None:
            ended = "it took too long" if result.timed_out else f"stopped: {result.limit} limit"
        return Observation(
            text=f"Run, {ended}.\n{text}".rstrip(),
            done=False,
            exit_code=result.exit_code,
            truncated=result.truncated,
        )


def unescaped(body: str) -> bytes:
    r"""The bytes of an input as written: \xHH, \n, \t, \r, \0, \\; one line end at either end is layout.

    Raises:
        ValueError: another escape; the message names it.
    """
    text = body.removeprefix("\n").removesuffix("\n")
    parts, at = [], 0
    for match in _ESCAPE.finditer(text):
        parts.append(text[at : match.start()].encode())
        if match[1]:
            parts.append(bytes([int(match[1], 16)]))
        elif match[2] in _SIMPLE:
            parts.append(_SIMPLE[match[2]])
        else:
            raise ValueError(match[0])
        at = match.end()
    return b"".join([*parts, text[at:].encode()])


def escaped(data: bytes) -> str:
    """How an input is written in a turn; a last line end of a text is left out (programs do not need it)."""
    text = (
        data[:-1] if data.endswith(b"\n") and all(32 <= byte < 127 or byte == 10 for byte in data) else data
    )
    made = "".join(_written(byte) for byte in text)
    return made if not made.startswith("\n") and not made.endswith("\n") else made.replace("\n", r"\n")


def _written(byte: int) -> str:
    if byte == 10:
        return "\n"
    if byte in b"\\":
        return r"\\"
    return chr(byte) if 32 <= byte < 127 and byte not in b"<>" else f"\\x{byte:02x}"


def _write(box: Sandbox, target: str, body: str) -> Observation:
    try:
        data = unescaped(body)
    except ValueError as error:
        return Observation(text=f"Unknown escape {error}: nothing written.", done=False)
    try:
        box.write(target, data)
    except SandboxError as error:
        return Observation(text=f"Cannot write the input: {_short(error)}", done=False)
    return Observation(text=f"Input written, {len(data)} bytes.", done=False)


def _short(error: SandboxError) -> str:
    return str(error).split("\n")[0][:120]
