"""Actions as fenced blocks of bash: one block a turn, the block `submit` ends the rollout.

Only `bash` fences at the start of a line count. A fence of another language is an unknown tool, one that is
not closed is malformed; text without a fence is an empty turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from mimo.errors import RecipeError
from mimo.harnesses.base import ParsedTurn
from mimo.harnesses.markup import MALFORMED_ARGUMENTS, MALFORMED_MARKUP, UNKNOWN_TOOL, Found, Tool, one_action
from mimo.types import ToolCall

NAME = "bash"
TOOLS = frozenset({"shell", "submit"})
"""All that a shell says; a toolset with more needs another format."""
_FENCE = re.compile(r"^```(?P<word>[^\n`]*)$", re.MULTILINE)


def parse(text: str, tools: Mapping[str, Tool]) -> ParsedTurn:
    """The first block and every fault."""
    return one_action(text, list(_scan(text, tools)))


def say(call: ToolCall, tools: Mapping[str, Tool]) -> str:
    """The call as a block; ValueError for a command that holds a fence."""
    command = "submit" if call.name == "submit" else str(call.arguments[tools[call.name].body_key])
    if _FENCE.search(command) or not command.strip():
        raise ValueError(f"a fenced block cannot hold {command[:80]!r}")
    return f"```bash\n{command}\n```"


def explain(tools: Mapping[str, Tool]) -> str:
    """The block.

    Raises:
        RecipeError: tools that a shell does not say.
    """
    if extra := sorted(set(tools) - TOOLS):
        raise RecipeError(f"bash blocks cannot say the tools {', '.join(extra)}", hint="use json or xml")
    return "```bash\ncommand\n```\nThe command submit ends."


def _scan(text: str, tools: Mapping[str, Tool]) -> Iterator[Found]:
    del tools
    at = 0
    while opening := _FENCE.search(text, at):
        closing = _FENCE.search(text, opening.end())
        if closing is None or closing["word"].strip():
            end = len(text) if closing is None else closing.start()
            yield Found(None, MALFORMED_MARKUP, (opening.start(), end))
        else:
            end = closing.end()
            body = text[opening.end() + 1 : closing.start()]
            yield _read(opening["word"].strip(), body, (opening.start(), end))
        at = max(end, opening.end())


def _read(word: str, body: str, span: tuple[int, int]) -> Found:
    command = body.removesuffix("\n")
    if word != "bash":
        return Found(None, UNKNOWN_TOOL if word else MALFORMED_MARKUP, span)
    if not command.strip():
        return Found(None, MALFORMED_ARGUMENTS, span)
    if command.strip() == "submit":
        return Found(ToolCall(name="submit", arguments={}), None, span)
    return Found(ToolCall(name="shell", arguments={"command": command}), None, span)
