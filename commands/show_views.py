"""What `mimo show` prints of a run, a stage and a group, from its JSON."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, cast

from rich.console import Group, RenderableType
from rich.text import Text

from commands.render import clean, duration, table, word
from commands.transcript import shown_number, task_line, transcript_view, verdict_word
from mimo.types import Json


def shown_view(kind: str, data: Mapping[str, Json]) -> RenderableType:
    """The answer of `mimo show` as text."""
    found = cast("dict[str, Any]", dict(data))
    views = {"run": _run, "stage": _stage, "group": _group, "rollout": transcript_view}
    return views[kind](found)


def _run(found: dict[str, Any]) -> RenderableType:
    stages = [
        (row["stage"], word(row["what"]), _took(row["seconds"]), row["why"], row["folder"] or "")
        for row in found["stages"]
    ]
    parts: list[RenderableType] = [
        table(("", ""), [row for row in _about(found) if row[1]]),
        Text(""),
        table(("stage", "", "took", "why", "where"), stages),
    ]
    parts += _lines("results", _figures(found["stages"], "headline", " = "))
    parts += _lines("counts", _figures(found["stages"], "counts", ": "))
    parts += _lines("notes", (f"{row['stage']}: {note}" for row in found["stages"] for note in row["notes"]))
    return Group(*parts)


def _about(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    mlflow, gate = found["mlflow"], found["gate"] or {}
    yield "run", found["run"]
    yield "status", found["status"] + (f": {found['message']}" if found["message"] else "")
    yield "recipe", found["recipe"]
    yield "profile", found["profile"] or "none"
    yield "--set", " ".join(found["overrides"])
    yield "began", time.strftime("%Y-%m-%d %H:%M", time.localtime(found["created"]))
    yield "starts", str(found["starts"])
    yield "last start took", _took(found["last_start_s"])
    yield "go on", found["command"]
    yield "gate", str(gate.get("verdict") or "")
    yield "folder", found["folder"]
    yield "report", found["report"] or ""
    yield "MLflow", f"{mlflow['uri']}, run {mlflow['run_id'] or '(not found)'}" if mlflow else ""


def _took(seconds: float | None) -> str:
    return "" if seconds is None else duration(seconds)


def _figures(stages: list[dict[str, Any]], part: str, between: str) -> Iterator[str]:
    for row in stages:
        for name, value in row[part].items():
            yield f"{row['stage']}: {name}{between}{shown_number(value)}"


def _lines(title: str, lines: Iterator[str]) -> list[RenderableType]:
    told = [Text(f"  {clean(line)}") for line in lines]
    return [Text(f"\n{title}", style="bold"), *told] if told else []


def _stage(found: dict[str, Any]) -> RenderableType:
    columns = ("group", "", "step", "policy", "task", "rollouts", "passed", "no verdict", "routes", "reward")
    rows = [
        (
            row["group_id"], row["store"], row["step"], row["policy"], row["task_id"], row["rollouts"],
            row["passed"], row["no_verdict"], row["on_a_route"], shown_number(row["reward_mean"]),
        )
        for row in found["groups"]
    ]  # fmt: skip
    sampled = sum(row["rollouts"] for row in found["groups"])
    head = f"{found['stage']} of run {found['run']}: {found['what']}" + (
        f" ({found['why']})" if found["why"] else ""
    )
    tail = f"{len(rows)} groups, {sampled} rollouts in {found['folder']}" if rows else "no rollouts"
    return Group(Text(clean(head)), *([table(columns, rows)] if rows else []), Text(clean(tail)))


def _group(found: dict[str, Any]) -> RenderableType:
    columns = (
        "rollout", "status", "verdict", "reward", "advantage", "solution", "behavior", "quality", "hack",
        "turns", "tokens", "error",
    )  # fmt: skip
    record = found["group"]
    parts: list[RenderableType] = [Text(clean(line)) for line in _group_head(found, record)]
    parts.append(table(columns, [_member(item) for item in found["rollouts"]]))
    if record:
        told = (f"{name}: {shown_number(value)}" for name, value in record["statistics"].items())
        parts += _lines("statistics", told)
    parts.append(Text(f"\n`mimo show {found['run']} {found['rollouts'][0]['rollout_id']}` is its transcript"))
    return Group(*parts)


def _group_head(found: dict[str, Any], record: dict[str, Any] | None) -> Iterator[str]:
    first = found["rollouts"][0]
    yield f"group {found['group_id']}: {found['stage']} of run {found['run']}, step {first['step']}"
    yield f"task {task_line(found['task'])}"
    yield f"policy {first['policy']}, harness {first['harness']}"
    if record:
        how = "trained on" if record["accepted"] else f"not trained on: {record['reason'] or 'rejected'}"
        yield f"method {record['method']}, {how}"


def _member(item: dict[str, Any]) -> tuple[object, ...]:
    grades, hack, error = item["grades"] or {}, item["hack"] or {}, item["error"]
    return (
        item["rollout_id"],
        item["status"],
        verdict_word(item["verdict"]),
        shown_number(item["reward"]),
        shown_number(item["advantage"]),
        shown_number(grades.get("solution")),
        shown_number(grades.get("behavior")),
        shown_number(grades.get("quality")),
        " ".join([hack.get("verdict") or "-", *hack.get("routes", [])]),
        item["num_turns"],
        item["generated_tokens"],
        f"{error['type']} in {error['where']}: {error['message'][:80]}" if error else "",
    )
