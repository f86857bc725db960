"""One rollout as a transcript for a terminal, from the JSON of `mimo show`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from commands.render import clean, duration, number

_STYLES = {"system": "dim", "user": "cyan", "assistant": "green", "tool": "yellow"}
_DECEIVING = dict.fromkeys([*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x206A), 0xFEFF])


def transcript_view(found: dict[str, Any]) -> RenderableType:
    """The facts, every turn of every context, the changes, and what must be known."""
    rollout = found["rollout"]
    parts: list[RenderableType] = [_block(name, body) for name, body in _facts(found, rollout) if body]
    several = len(rollout["contexts"]) > 1
    for number_, context in enumerate(rollout["contexts"]):
        if several:
            began = f", from {context['parent']}" if context["parent"] is not None else ""
            parts.append(Text(f"\n=== context {plain(context['context_id'])}{began}", style="bold"))
        tokens = found["tokens"][number_] if found["tokens"] else [None] * len(context["turns"])
        for place, (turn, counted) in enumerate(zip(context["turns"], tokens, strict=True)):
            parts += _turn(place, turn, counted)
    if found["diff"] is not None:
        changes = plain(found["diff"]) or "(nothing)"
        parts += [Text("\n--- changes", style="bold"), Text(changes)]
    parts += [Text(f"\nnote: {plain(note)}", style="yellow") for note in found["notes"]]
    return Group(*parts)


def plain(value: object) -> str:
    """Text that cannot deceive: without control characters, zero-width and direction marks."""
    return clean(value).translate(_DECEIVING)


def shown_number(value: object) -> str:
    """A number as the summary writes it, a dash for None, anything else as it is."""
    if value is None:
        return "-"
    return number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def task_line(task: dict[str, Any]) -> str:
    """The task's id and what is known of it."""
    known = [task[key] for key in ("domain", "family", "split", "source") if task.get(key)]
    rate = f", pass rate {task['pass_rate']:.2f}" if task.get("pass_rate") is not None else ""
    return f"{task['task_id']}" + (f" ({', '.join(known)}{rate})" if known else " (no longer in the store)")


def verdict_word(verdict: dict[str, Any] | None) -> str:
    """passed, failed, tampered or none."""
    if verdict is None:
        return "none"
    return "tampered" if verdict["tampered"] else "passed" if verdict["passed"] else "failed"


def _block(name: str, body: str) -> Text:
    return Text.assemble((f"{name:<10}", "bold"), plain(body))


def _facts(found: dict[str, Any], rollout: dict[str, Any]) -> Iterator[tuple[str, str]]:
    error, grades, hack = rollout["error"], rollout["grades"], rollout["hack"]
    group, seconds = found["group"], rollout["seconds"]
    yield (
        "rollout",
        f"{rollout['rollout_id']}: {found['stage']} of run {found['run']}, step {rollout['step']}",
    )
    yield "task", task_line(found["task"])
    yield "policy", f"{rollout['policy']}, harness {rollout['harness']}, seed {rollout['seed']}"
    yield "status", rollout["status"]
    yield "error", f"{error['type']} in {error['where']}: {error['message']}" if error else ""
    yield "verdict", verdict_word(rollout["verdict"])
    yield "", "\n          ".join(_detail((rollout["verdict"] or {}).get("detail") or {}))
    yield "grades", _grades(grades) if grades else ""
    yield "hack", ", ".join([hack["verdict"], *hack["routes"]]) if hack else ""
    yield "", "\n          ".join(hack["evidence"]) if hack else ""
    yield "reward", f"{shown_number(rollout['reward'])}, advantage {shown_number(rollout['advantage'])}"
    yield "group", f"{rollout['group_id']}" + (f", {group['method']}" if group else "")
    masked = sum(row["masked"] for turns in found["tokens"] or [] for row in turns)
    kept = f", {masked} of the policy's turns masked" if found["tokens"] else ", not kept"
    yield "tokens", f"{rollout['prompt_tokens']} read, {rollout['generated_tokens']} sampled{kept}"
    yield "seconds", ", ".join(f"{name} {duration(value)}" for name, value in seconds.items())
    yield "cost", f"{number(rollout['cost_usd'])} USD" if rollout["cost_usd"] else ""
    yield "where", found["folder"]


def _detail(detail: dict[str, Any]) -> Iterator[str]:
    for name, value in detail.items():
        if isinstance(value, dict) and value and all(isinstance(item, str) for item in value.values()):
            yield f"{name}:"
            yield from (f"  {key}: {item}" for key, item in value.items())
        elif value not in ({}, [], None, ""):
            yield f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"


def _grades(grades: dict[str, Any]) -> str:
    names = [name for name in ("solution", "behavior", "quality") if grades[name] is not None]
    head = [f"{name} {grades[name]:.3g}" for name in names]
    head += [f"tier {grades['tier']}"] if grades["tier"] else []
    return "\n          ".join([", ".join([*head, f"by {grades['grader']}"]), *grades["evidence"]])


def _turn(place: int, turn: dict[str, Any], counted: dict[str, int] | None) -> Iterator[Text]:
    style = _STYLES.get(turn["role"], "")
    yield Text(f"\n--- {place} {' · '.join(_about(turn, counted))}", style=f"bold {style}")
    if turn["text"]:
        yield Text(plain(turn["text"]))
    yield from (Text(f"[image {plain(image)}]", style="dim") for image in turn["images"])
    for call in turn["tool_calls"]:
        yield Text(
            f"-> {plain(call['name'])} {plain(json.dumps(call['arguments'], ensure_ascii=False))}", style
        )


def _about(turn: dict[str, Any], counted: dict[str, int] | None) -> Iterator[str]:
    yield turn["role"]
    result = turn["tool_result"] or {}
    if result.get("exit_code") is not None:
        yield f"exit code {result['exit_code']}"
    if result.get("truncated"):
        yield "output was cut"
    if counted is not None and counted["tokens"]:
        yield f"{counted['tokens']} tokens" + (f", {counted['masked']} masked" if counted["masked"] else "")
    if turn["finish_reason"]:
        yield f"ended by {turn['finish_reason']}"
    if turn["weight_version"] is not None:
        yield f"weights {turn['weight_version']}"
    if turn["seconds"] is not None:
        yield duration(turn["seconds"])
    for flag in turn["flags"]:
        yield f"flag {plain(flag['rule'])} [{flag['span'][0]}, {flag['span'][1]})"
