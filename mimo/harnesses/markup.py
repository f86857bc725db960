"""The strict reader of actions written as tags: `<look path="a.py"/>`, `<edit path="a.py" line="3">x</edit>`.

Prose around an action is allowed. Everything that looks like an action and is none is a fault with a rule
and the characters it covers; the rules are those of METHOD 6 (malformed markup, tool names, arguments).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mimo.harnesses.base import Malformed, ParsedTurn
from mimo.types import Json, ToolCall

MALFORMED_MARKUP = "malformed-markup"
UNKNOWN_TOOL = "unknown-tool"
MALFORMED_ARGUMENTS = "malformed-arguments"
SEVERAL_ACTIONS = "several-actions"
EMPTY_TURN = "empty-turn"
RULES = (MALFORMED_MARKUP, UNKNOWN_TOOL, MALFORMED_ARGUMENTS, SEVERAL_ACTIONS, EMPTY_TURN)

_OPEN = re.compile(r"<(?P<close>/?)(?P<name>[A-Za-z][\w-]*)(?P<rest>[^<>]*)(?P<end>>|$|(?=<))")
_ATTRIBUTE = re.compile(r'\s+([A-Za-z_][\w-]*)="([^"]*)"')

PLACEHOLDERS = {
    "path": "F",
    "line": "N",
    "lines": "A-B",
    "command": "command",
    "content": "text",
    "body": "new line",
}
"""What stands for an argument where a prompt shows how an action is written."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """One action: attributes it needs and may have (each with a check), and whether it has a body."""

    needs: Mapping[str, Callable[[str], Json]]
    may: Mapping[str, Callable[[str], Json]]
    body: bool = False
    body_key: str = "body"
    """The argument that the body becomes."""


@dataclass(frozen=True, slots=True)
class Found:
    """A place of a turn that is an action or looks like one."""

    call: ToolCall | None
    rule: str | None
    chars: tuple[int, int]


def parse_actions(text: str, tools: Mapping[str, Tool]) -> ParsedTurn:
    """The first well-formed action of the turn and every fault; further actions are faults themselves."""
    return one_action(text, list(_scan(text, tools)))


def one_action(text: str, found: Sequence[Found]) -> ParsedTurn:
    """What every parser makes of the places it found, in the order of the text."""
    calls = [item for item in found if item.call is not None]
    faults = [Malformed(rule=item.rule, chars=item.chars) for item in found if item.rule is not None]
    faults += [Malformed(rule=SEVERAL_ACTIONS, chars=item.chars) for item in calls[1:]]
    if not found:
        faults.append(Malformed(rule=EMPTY_TURN, chars=(0, len(text))))
    faults.sort(key=lambda fault: fault.chars)
    return ParsedTurn(call=calls[0].call if calls else None, malformed=tuple(faults))


def _scan(text: str, tools: Mapping[str, Tool]) -> Iterator[Found]:
    at = 0
    while match := _OPEN.search(text, at):
        item = _read(text, match, tools)
        if item is not None:
            yield item
        at = max(item.chars[1] if item else match.end(), match.start() + 1)


def _read(text: str, match: re.Match[str], tools: Mapping[str, Tool]) -> Found | None:
    name, rest, span = match["name"], match["rest"], match.span()
    tool = tools.get(name)
    if tool is None:
        looks_like_action = match["end"] == ">" and (rest.endswith("/") or "=" in rest or match["close"])
        return Found(None, UNKNOWN_TOOL, span) if looks_like_action else None
    if match["close"] or match["end"] != ">":
        return Found(None, MALFORMED_MARKUP, span)
    if rest.endswith("/") == tool.body:
        return Found(None, MALFORMED_MARKUP, span)
    body = None
    if tool.body:
        end = text.find(f"</{name}>", match.end())
        if end < 0:
            return Found(None, MALFORMED_MARKUP, (match.start(), len(text)))
        body, span = text[match.end() : end], (match.start(), end + len(name) + 3)
    return _arguments(name, tool, rest.removesuffix("/"), body, span)


def _arguments(name: str, tool: Tool, rest: str, body: str | None, span: tuple[int, int]) -> Found:
    pairs = _ATTRIBUTE.findall(rest)
    if _ATTRIBUTE.sub("", rest).strip():
        return Found(None, MALFORMED_MARKUP, span)
    given = dict(pairs)
    if len(given) != len(pairs):
        return Found(None, MALFORMED_ARGUMENTS, span)
    return checked_call(name, tool, given, body, span)


def checked_call(
    name: str, tool: Tool, given: Mapping[str, str], body: str | None, span: tuple[int, int]
) -> Found:
    """The call when its arguments are those of the tool, each accepted by its check."""
    known = {**tool.needs, **tool.may}
    if set(given) - set(known) or set(tool.needs) - set(given):
        return Found(None, MALFORMED_ARGUMENTS, span)
    try:
        arguments = {key: known[key](value) for key, value in given.items()}
    except ValueError:
        return Found(None, MALFORMED_ARGUMENTS, span)
    if body is not None:
        arguments[tool.body_key] = body
    return Found(ToolCall(name=name, arguments=arguments), None, span)


def written_arguments(call: ToolCall, tool: Tool) -> tuple[dict[str, str], str | None]:
    """The arguments of a call as a turn writes them (lines as `3` or `3-5`), its body apart."""
    given = dict(call.arguments)
    body = str(given.pop(tool.body_key)) if tool.body else None
    return {key: _written(value) for key, value in given.items()}, body


def _written(value: Json) -> str:
    if isinstance(value, list):
        first, last = value
        return str(first) if first == last else f"{first}-{last}"
    return str(value)


def line_range(text: str) -> Json:
    """`[first, last]` of `"3"` or `"3-5"`; ValueError for anything else."""
    match = re.fullmatch(r"([1-9]\d{0,5})(?:-([1-9]\d{0,5}))?", text)
    if match is None:
        raise ValueError(text)
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first:
        raise ValueError(text)
    return [first, last]


def inner_path(text: str) -> Json:
    """A path that stays in the work tree, without `.` and `..`; ValueError for anything else."""
    parts = text.split("/")
    bad = not text or len(text) > 200 or any(part in ("", ".", "..") for part in parts)
    if bad or any(ord(char) < 32 or char == "\\" for char in text):
        raise ValueError(text)
    return text
