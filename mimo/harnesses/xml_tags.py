"""Actions as tags: `<read path="F"/>`, `<shell>command</shell>` (the reader is `mimo.harnesses.markup`)."""

from __future__ import annotations

from collections.abc import Mapping

from mimo.harnesses.base import ParsedTurn
from mimo.harnesses.markup import PLACEHOLDERS, Tool, parse_actions, written_arguments
from mimo.types import ToolCall

NAME = "xml"


def parse(text: str, tools: Mapping[str, Tool]) -> ParsedTurn:
    """The first action and every fault."""
    return parse_actions(text, tools)


def say(call: ToolCall, tools: Mapping[str, Tool]) -> str:
    """The call as `parse` reads it; ValueError for what cannot be said (a body with its own closing tag)."""
    tool = tools[call.name]
    given, body = written_arguments(call, tool)
    head = call.name + "".join(f' {key}="{value}"' for key, value in given.items())
    text = f"<{head}/>" if body is None else f"<{head}>{body}</{call.name}>"
    read = parse(text, tools)
    if read.malformed or read.call != call:
        raise ValueError(f"{call.name} cannot be said as a tag: {text[:80]!r}")
    return text


def explain(tools: Mapping[str, Tool]) -> str:
    """A line for each action."""
    return "\n".join(_line(name, tool) for name, tool in tools.items())


def _line(name: str, tool: Tool) -> str:
    head = name + "".join(f' {key}="{PLACEHOLDERS.get(key, key)}"' for key in tool.needs)
    return f"<{head}>{PLACEHOLDERS[tool.body_key]}</{name}>" if tool.body else f"<{head}/>"
