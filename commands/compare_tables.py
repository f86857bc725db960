"""What `mimo compare` prints, from its JSON: a titled table a part; parts without rows are left out."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any, cast

from rich.console import Group, RenderableType
from rich.text import Text

from commands.render import clean, duration, number, table
from mimo.types import Json

_NONE = "-"
_ABSENT = "(not there)"
_RATES = "pass rates with intervals"


def comparison_view(data: dict[str, Json]) -> RenderableType:
    """The comparison: who is compared, notes, what differs, results, stages, time, counts, MLflow."""
    found = cast("dict[str, Any]", data)
    parts: list[RenderableType] = [table(("", "A", "B"), _heads(found["a"], found["b"]))]
    for title, columns, rows in _sections(found):
        if rows:
            parts += [Text(f"\n{title}", style="bold"), table(columns, rows)]
        if rows and title == _RATES:
            parts.append(Text(f"  difference: {found['difference']}", style="dim"))
    return Group(*parts, *_lines("notes", found["notes"]), *_lines("MLflow", list(_mlflow(found["mlflow"]))))


def _sections(found: dict[str, Any]) -> Iterator[tuple[str, Sequence[str], list[Sequence[object]]]]:
    sides = ("A", "B")
    yield "parameters that differ", ("key", *sides), _params(found["params"])
    yield "runtime that differs (no effect on results)", ("key", *sides), _params(found["runtime"])
    rates = [row for row in found["metrics"] if "low" in row.get("a", row.get("b", {}))]
    others = [row for row in found["metrics"] if row not in rates]
    yield _RATES, ("", *sides, "difference"), [_metric(row) for row in rates]
    yield "other results", ("", *sides, "difference"), [_metric(row) for row in others]
    yield "stages", ("stage", "A", "took", "B", "took", ""), [_stage(row) for row in found["stages"]]
    yield "where the time went", ("", *sides), [_part(row) for row in found["time"]]
    yield "counts", ("stage", "what", *sides), [_count(row) for row in found["counts"]]


def _lines(title: str, lines: Sequence[str]) -> list[Text]:
    return [Text(f"\n{title}", style="bold"), *(Text(f"  {clean(line)}") for line in lines)] if lines else []


def _heads(a: dict[str, Any], b: dict[str, Any]) -> Iterator[Sequence[object]]:
    for name, told in (
        ("run", lambda side: side["run"]),
        ("recipe", lambda side: side["recipe"]),
        ("variant", lambda side: side["variant"]),
        ("profile", lambda side: side["profile"] or "none"),
        ("--set", lambda side: " ".join(side["overrides"])),
        ("status", _status),
        ("began", lambda side: time.strftime("%Y-%m-%d %H:%M", time.localtime(side["created"]))),
        ("made in this run", lambda side: duration(side["made_s"])),
        ("reused from others", lambda side: duration(side["reused_s"])),
        ("code", _code),
        ("gate", lambda side: side["gate"] or ""),
    ):
        row = (told(a), told(b))
        if any(row):
            yield (name, *row)


def _status(side: dict[str, Any]) -> str:
    return str(side["status"]) + (f": {side['message']}" if side["message"] else "")


def _code(side: dict[str, Any]) -> str:
    return "unknown" if not side["commit"] else side["commit"][:10] + (" + changes" if side["dirty"] else "")


def _params(rows: Sequence[dict[str, Any]]) -> list[Sequence[object]]:
    return [(row["key"], *(_value(row[side]) if side in row else _ABSENT for side in "ab")) for row in rows]


def _value(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _metric(row: dict[str, Any]) -> Sequence[object]:
    cells = [_measure(row[side]) if side in row else _NONE for side in "ab"]
    change = row.get("difference")
    return row["name"], *cells, _measure(change, sign="+") if change else ""


def _measure(found: dict[str, float], sign: str = "") -> str:
    """`0.354 [0.234, 0.496]`, a plain number without an interval; differences carry their sign."""
    if "low" not in found:
        return ("+" if sign and found["value"] > 0 else "") + number(found["value"])
    value, low, high = (f"{found[name]:{sign}.3f}" for name in ("value", "low", "high"))
    return f"{value} [{low}, {high}]" + (f", {found['rollouts']} rollouts" if "rollouts" in found else "")


def _stage(row: dict[str, Any]) -> Sequence[object]:
    cells: list[str] = []
    for side in "ab":
        item = row.get(side)
        took = duration(item["seconds"]) if item and item["seconds"] is not None else ""
        cells += [_what(item), took] if item else [_NONE, ""]
    return row["stage"], *cells, "same result" if row["shared"] else ""


def _what(item: dict[str, Any]) -> str:
    told = item["why"] if item["seconds"] is not None else ""
    return (
        f"{item['what']} {told}".rstrip()
        if item["what"] == "reused" or not told
        else f"{item['what']}, {told}"
    )


def _part(row: dict[str, Any]) -> Sequence[object]:
    return row["name"], *(
        f"{duration(row[side]['seconds'])}, {row[side]['share']:.0%}" if side in row else _NONE
        for side in "ab"
    )


def _count(row: dict[str, Any]) -> Sequence[object]:
    return row["stage"], row["what"], *(row.get(side, _NONE) for side in "ab")


def _mlflow(found: dict[str, Any]) -> Iterator[str]:
    for name in "ab":
        place = found[name]
        if not place:
            yield f"{name.upper()}: a run without MLflow"
            continue
        where = f"run {place['run_id']}" if place["run_id"] else f"search {place['filter']}"
        yield f"{name.upper()}: {place['uri']}, experiment {place['experiment']}, {where}"
    if found["page"]:
        yield f"both: {found['page']} (after `mlflow ui --backend-store-uri {found['a']['uri']}`)"
