"""What a policy can do: sets of tools by name, each with the domains it is made for.

shell: any command in the box. files: read and write files as well. lines: the tools of `edit-lines`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mimo.harnesses.base import Observation
from mimo.harnesses.edit_lines import TOOLS as LINE_TOOLS
from mimo.harnesses.edit_lines import carry_out, reason
from mimo.harnesses.markup import Tool, inner_path, line_range
from mimo.harnesses.visible_tests import shortened
from mimo.types import Domain, Task, ToolCall
from sandbox.base import Sandbox
from sandbox.errors import SandboxError

MAX_FILE_BYTES = 400_000
MAX_LINES = 60
MAX_CHARS = 1500
"""Of an observation, before the recipe's `observation_tokens` cuts it."""

_SHELL = Tool(needs={}, may={}, body=True, body_key="command")
_SUBMIT = Tool(needs={}, may={})


@dataclass(frozen=True, kw_only=True, slots=True)
class Toolset:
    """Tools by name and what carries one of their calls out (never `submit`, which only ends)."""

    name: str
    tools: Mapping[str, Tool]
    domains: tuple[Domain, ...]
    act: Callable[[ToolCall, Sandbox, Task], Observation]

    def spoken(self, call: ToolCall) -> ToolCall:
        """The call in this set's words: where there is only a shell, reading and writing become commands.

        Raises:
            ValueError: the set has no words for it.
        """
        if call.name in self.tools:
            return call
        if "shell" in self.tools and call.name in ("read", "write"):
            return ToolCall(name="shell", arguments={"command": _as_command(call)})
        raise ValueError(f"the tools {self.name} cannot say {call.name}")


def _as_command(call: ToolCall) -> str:
    path = str(call.arguments["path"])
    if call.name == "read":
        return f"cat {path}"
    content = str(call.arguments["content"])
    return f"cat > {path} <<'END'\n{content.removesuffix(chr(10))}\nEND"


def shell(call: ToolCall, box: Sandbox, task: Task) -> Observation:
    """Run the command in the box's shell, whose folder and variables persist."""
    command = str(call.arguments["command"]).strip("\n")
    result = box.exec(command, timeout_s=task.environment.limits.command_s)
    text = shortened(result.output, MAX_CHARS)
    if result.timed_out:
        text = f"{text}\nThe command took too long.".strip()
    elif result.limit is not None:
        text = f"{text}\nStopped: {result.limit} limit.".strip()
    elif result.exit_code != 0:
        text = f"{text}\nexit {result.exit_code}".strip()
    return Observation(
        text=text or "No output.", done=False, exit_code=result.exit_code, truncated=result.truncated
    )


def files(call: ToolCall, box: Sandbox, task: Task) -> Observation:
    """Read or write a file of the work tree, or run a command."""
    if call.name == "shell":
        return shell(call, box, task)
    path = str(call.arguments["path"])
    target = f"{task.environment.workdir.rstrip('/')}/{path}"
    try:
        if call.name == "write":
            content = str(call.arguments["content"])
            box.write(target, content.encode("utf-8", "replace"))
            return Observation(text=f"Wrote {path}: {len(content)} characters.", done=False)
        data = box.read(target, max_bytes=MAX_FILE_BYTES)
    except SandboxError as error:
        return Observation(text=f"Cannot {call.name} {path}: {reason(error)}", done=False)
    return _shown(path, data.decode("utf-8", "replace"), call)


def _shown(path: str, text: str, call: ToolCall) -> Observation:
    lines = text.removesuffix("\n").split("\n")
    wanted = call.arguments.get("lines")
    first, last = wanted if isinstance(wanted, list) else [1, len(lines)]
    end = min(int(str(last)), len(lines), int(str(first)) + MAX_LINES - 1)
    shown = "\n".join(lines[int(str(first)) - 1 : end])
    cut = end < min(int(str(last)), len(lines)) or len(shown) > MAX_CHARS
    more = f"\n({len(lines)} lines in all)" if cut or int(str(first)) > len(lines) else ""
    return Observation(text=(shown[:MAX_CHARS] + more) or f"{path} is empty.", done=False, truncated=cut)


def lines(call: ToolCall, box: Sandbox, task: Task) -> Observation:
    """As the harness `edit-lines` does."""
    return carry_out(call, box, task)


TOOLSETS = {
    made.name: made
    for made in (
        Toolset(
            name="shell",
            tools={"shell": _SHELL, "submit": _SUBMIT},
            domains=("agent", "cyber", "visual"),
            act=shell,
        ),
        Toolset(
            name="files",
            tools={
                "read": Tool(needs={"path": inner_path}, may={"lines": line_range}),
                "write": Tool(needs={"path": inner_path}, may={}, body=True, body_key="content"),
                "shell": _SHELL,
                "submit": _SUBMIT,
            },
            domains=("agent", "cyber", "visual"),
            act=files,
        ),
        Toolset(name="lines", tools=LINE_TOOLS, domains=("coding", "visual"), act=lines),
    )
}
