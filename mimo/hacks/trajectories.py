"""Anyone's trajectories as rollouts for the hack audit: our own records, or chat messages with tool calls.

A chat record is `{"id", "messages", "reference", "passed", "tampered"}`, all but `messages` optional.
`reference` is a unified diff of the solution: with it an output that shows the solution is evidence. A
message is OpenAI's: `role`, `content` (text, or parts with `text`), `tool_calls`, `tool_call_id`; a call is
`{"id", "function": {"name", "arguments"}}` or `{"name", "arguments"}`, arguments an object or its JSON. Where
no message has a call, fenced bash in assistant messages is read as calls and the user's next message as the
output.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mimo.records import from_json
from mimo.types import Context, Json, Rollout, RolloutStatus, ToolCall, Turn, Verdict

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
_FENCE = re.compile(r"^```(?:bash|sh|shell|mswea_bash_command)[ \t]*\n(.*?)^```", re.M | re.S)
_KNOWN = frozenset({"id", "messages", "reference", "passed", "tampered"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Trajectory:
    """A rollout to audit; `places` maps a turn's number to its message's, None for our own records."""

    rollout: Rollout
    reference: str = ""
    places: tuple[int, ...] | None = None
    fenced: bool = False
    """Whether its calls were read from fenced text."""


@dataclass(slots=True)
class _Said:
    turns: list[Turn]
    places: list[int]

    def add(self, place: int, role: str, text: str, call: ToolCall | None = None) -> None:
        calls = () if call is None else (call,)
        self.turns.append(Turn(role=role, text=text, span=(0, 0), tool_calls=calls))  # type: ignore[arg-type]
        self.places.append(place)


def read_trajectory(row: Mapping[str, Json], name: str) -> Trajectory:
    """The trajectory in one JSON object; `name` is its id where it has none.

    Raises:
        ValueError: neither a rollout record nor a chat record; the message says what is wrong.
    """
    if "rollout_id" in row:
        return Trajectory(rollout=from_json(Rollout, dict(row)))
    messages = row.get("messages")
    if not isinstance(messages, list) or not messages:
        raise ValueError("neither a rollout (rollout_id) nor a chat record (messages, a list)")
    for key, kind in (("reference", str), ("passed", bool), ("tampered", bool)):
        if not isinstance(row.get(key), kind | None):
            raise ValueError(f"{key}: got {row[key]!r:.40}, expected {kind.__name__}")
    said = _Said([], [])
    fenced = not any(isinstance(item, dict) and item.get("tool_calls") for item in messages)
    fenced = fenced and _read_fenced(messages, said)
    if not fenced:
        said = _Said([], [])
        _read(messages, said)
    reference = row.get("reference")
    return Trajectory(
        rollout=_rollout(row, name, said.turns),
        reference=reference if isinstance(reference, str) else "",
        places=tuple(said.places),
        fenced=fenced,
    )


def unknown_keys(row: Mapping[str, Json]) -> list[str]:
    """Keys of a chat record that nothing reads."""
    return [] if "rollout_id" in row else sorted(row.keys() - _KNOWN)


def _read(messages: Sequence[Json], said: _Said) -> None:
    """Each call is a turn of its own, followed by its output, as the audit reads them."""
    answers = _answers(messages)
    for place, item in enumerate(messages):
        message = _message(item, place)
        calls = _calls(message, place)
        role, text = _role(message, place), _text(message.get("content"), place)
        if not calls:
            if role != "tool" or place not in answers.values():
                said.add(place, role, text)
            continue
        for number, call in enumerate(calls):
            said.add(place, role, "" if number else text, call)
            answer = answers.get((place, number))
            if answer is not None:
                given = _message(messages[answer], answer)
                said.add(answer, "tool", _text(given.get("content"), answer))


def _answers(messages: Sequence[Json]) -> dict[tuple[int, int], int]:
    """(message, number of the call) -> the tool message that answers it: by id, else in order."""
    found: dict[tuple[int, int], int] = {}
    ids: dict[str, tuple[int, int]] = {}
    waiting: list[tuple[int, int]] = []
    for place, item in enumerate(messages):
        message = _message(item, place)
        if message.get("role") == "assistant":
            raw = message.get("tool_calls")
            calls = raw if isinstance(raw, list) else []
            waiting = [(place, number) for number in range(len(calls))]
            for number, call in enumerate(calls):
                if isinstance(call, dict) and isinstance(call.get("id"), str):
                    ids[str(call["id"])] = (place, number)
        elif message.get("role") == "tool":
            named = ids.get(str(message.get("tool_call_id")))
            target = named if named in waiting else (waiting[0] if waiting else None)
            if target is not None:
                found[target] = place
                waiting.remove(target)
    return found


def _read_fenced(messages: Sequence[Json], said: _Said) -> bool:
    """Fenced bash as calls; whether there was any."""
    found = False
    for place, item in enumerate(messages):
        message = _message(item, place)
        role, text = _role(message, place), _text(message.get("content"), place)
        commands = _FENCE.findall(text) if role == "assistant" else []
        after_call = bool(said.turns and said.turns[-1].tool_calls)
        if commands:
            found = True
            call = ToolCall(name="bash", arguments={"command": "\n".join(commands)})
            said.add(place, role, text, call)
        else:
            said.add(place, "tool" if role == "user" and after_call else role, text)
    return found


def _message(item: Json, place: int) -> Mapping[str, Json]:
    if not isinstance(item, dict):
        raise ValueError(f"messages[{place}]: got {type(item).__name__}, expected an object")
    return item


def _role(message: Mapping[str, Json], place: int) -> str:
    role = message.get("role")
    if role not in _ROLES:
        raise ValueError(f"messages[{place}].role: got {role!r}, expected one of {', '.join(_ROLES)}")
    return _ROLES[str(role)]


def _text(content: Json, place: int) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list) and all(isinstance(part, dict | str) for part in content):
        return "\n".join(part if isinstance(part, str) else str(part.get("text", "")) for part in content)  # type: ignore[union-attr]
    raise ValueError(f"messages[{place}].content: expected text or a list of parts")


def _calls(message: Mapping[str, Json], place: int) -> list[ToolCall]:
    raw = message.get("tool_calls")
    if raw is None:
        return []
    if not isinstance(raw, list):
        raise ValueError(f"messages[{place}].tool_calls: expected a list")
    return list(_each_call(raw, place))


def _each_call(raw: Sequence[Json], place: int) -> Iterator[ToolCall]:
    for number, item in enumerate(raw):
        where = f"messages[{place}].tool_calls[{number}]"
        if not isinstance(item, dict):
            raise ValueError(f"{where}: expected an object")
        inner = item.get("function", item)
        name = inner.get("name") if isinstance(inner, dict) else None
        if not isinstance(inner, dict) or not isinstance(name, str):
            raise ValueError(f"{where}: no name")
        yield ToolCall(name=name, arguments=_arguments(inner.get("arguments")))


def _arguments(given: Json) -> dict[str, Json]:
    """An object; of text that is no JSON object, one whose `command` is the text."""
    if isinstance(given, str):
        try:
            read = json.loads(given)
        except ValueError:
            read = None
        given = read if isinstance(read, dict) else {"command": given}
    return dict(given) if isinstance(given, dict) else {}


def _rollout(row: Mapping[str, Json], name: str, turns: Sequence[Turn]) -> Rollout:
    passed, tampered = row.get("passed"), row.get("tampered")
    judged = isinstance(passed, bool) or isinstance(tampered, bool)
    given = row.get("id")
    return Rollout(
        rollout_id=given if isinstance(given, str) else name,
        group_id="",
        task_id="",
        domain="coding",
        harness="",
        policy="",
        step=0,
        seed=0,
        status=RolloutStatus.DONE,
        contexts=(Context(context_id="0", parent=None, turns=tuple(turns)),),
        verdict=Verdict(passed=passed is True, tampered=tampered is True) if judged else None,
    )
