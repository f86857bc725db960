"""Actions as JSON objects: `{"tool": "read", "path": "F"}`, prose around them allowed.

An object without `tool` is no action and a fault; so is text that begins like one and does not parse. Values
are text or whole numbers; a key that comes twice is refused (readers differ in which of the two they take).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from mimo.harnesses.base import ParsedTurn
from mimo.harnesses.markup import (
    MALFORMED_ARGUMENTS,
    MALFORMED_MARKUP,
    PLACEHOLDERS,
    UNKNOWN_TOOL,
    Found,
    Tool,
    checked_call,
    one_action,
    written_arguments,
)
from mimo.types import ToolCall

NAME = "json"
_BEGINS = re.compile(r'\{\s*"')


class _Twice(ValueError):
    """A key that comes twice."""


def parse(text: str, tools: Mapping[str, Tool]) -> ParsedTurn:
    """The first action and every fault."""
    return one_action(text, list(_scan(text, tools)))


def say(call: ToolCall, tools: Mapping[str, Tool]) -> str:
    """The call on one line, as `parse` reads it."""
    tool = tools[call.name]
    given, body = written_arguments(call, tool)
    values = {"tool": call.name, **given} | ({} if body is None else {tool.body_key: body})
    return json.dumps(values, ensure_ascii=False)


def explain(tools: Mapping[str, Tool]) -> str:
    """A line for each action."""
    return "\n".join(_line(name, tool) for name, tool in tools.items())


def _line(name: str, tool: Tool) -> str:
    keys = [*tool.needs, *([tool.body_key] if tool.body else [])]
    return json.dumps({"tool": name} | {key: PLACEHOLDERS.get(key, key) for key in keys})


def _scan(text: str, tools: Mapping[str, Tool]) -> Iterator[Found]:
    decoder = json.JSONDecoder(object_pairs_hook=_pairs, strict=False)
    at = 0
    while match := _BEGINS.search(text, at):
        start = match.start()
        try:
            value, end = decoder.raw_decode(text, start)
        except _Twice:
            end = _line_end(text, start)
            yield Found(None, MALFORMED_ARGUMENTS, (start, end))
        except (ValueError, RecursionError):
            end = _line_end(text, start)
            yield Found(None, MALFORMED_MARKUP, (start, end))
        else:
            yield _read(value, tools, (start, end))
        at = end


def _read(value: object, tools: Mapping[str, Tool], span: tuple[int, int]) -> Found:
    if not isinstance(value, dict) or not isinstance(value.get("tool"), str):
        return Found(None, MALFORMED_MARKUP, span)
    name = str(value["tool"])
    tool = tools.get(name)
    if tool is None:
        return Found(None, UNKNOWN_TOOL, span)
    given = {key: _text(item) for key, item in value.items() if key != "tool"}
    body = given.pop(tool.body_key, None) if tool.body else None
    words = {key: item for key, item in given.items() if item is not None}
    if len(words) != len(given) or (tool.body and body is None):
        return Found(None, MALFORMED_ARGUMENTS, span)
    return checked_call(name, tool, words, body, span)


def _text(value: object) -> str | None:
    """Text as it is, a whole number as its digits, None for anything else."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise _Twice
    return dict(pairs)


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end
