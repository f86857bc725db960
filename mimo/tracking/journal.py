"""What the tracker was told in a run, in the run's folder: `mimo track sync` tells it again.

`tracking.jsonl` holds one call a line. Metric rows and sampled rollouts are not copied into it: they are read
from the stage's `metrics.jsonl` and `traces.jsonl`, up to the last step a commit line names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO, cast

from mimo.types import Json

CALLS = "tracking.jsonl"


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One call: when (seconds), which method, its arguments by name."""

    ts: float
    name: str
    arguments: Mapping[str, Json]


def append(folder: Path, call: Call) -> None:
    """Write `call` at the end of the run's journal.

    Raises:
        OSError: disk full, no permission.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / CALLS, "a+b") as file:
        file.write(b"" if _whole_lines(file) else b"\n")
        file.write(json.dumps({"ts": call.ts, "call": call.name, **call.arguments}).encode() + b"\n")


def read(folder: Path) -> Iterator[Call]:
    """The run's calls in order; without torn lines, and of commits in a row only the last."""
    path = folder / CALLS
    calls = list(_calls(path.read_bytes() if path.is_file() else b""))
    for call, following in zip_longest(calls, calls[1:]):
        if following is None or not _covers(following, call):
            yield call


def stage_rows(path: Path, committed: int) -> list[dict[str, Json]]:
    """The rows of a stage's `metrics.jsonl` or `traces.jsonl` for steps up to `committed`."""
    if not path.is_file():
        return []
    rows = [row for line in path.read_bytes().split(b"\n") if (row := _json_object(line)) is not None]
    return [row for row in rows if isinstance(row.get("step"), int) and cast(int, row["step"]) <= committed]


def _covers(following: Call, call: Call) -> bool:
    """Whether `following` sends all that `call` would: both commits of one stage, the rows in its file."""
    if not call.name == following.name == "commit" or "rows" in {**call.arguments, **following.arguments}:
        return False
    return call.arguments["stage"] == following.arguments["stage"]


def _whole_lines(file: BinaryIO) -> bool:
    """False after a kill in the middle of a line."""
    if file.seek(0, os.SEEK_END) == 0:
        return True
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


def _calls(text: bytes) -> Iterator[Call]:
    for line in text.split(b"\n"):
        data = _json_object(line)
        if data is not None and isinstance(data.get("ts"), int | float):
            arguments = {key: value for key, value in data.items() if key not in ("ts", "call")}
            yield Call(ts=float(cast(float, data["ts"])), name=str(data.get("call")), arguments=arguments)


def _json_object(line: bytes) -> dict[str, Json] | None:
    try:
        data = json.loads(line)
    except ValueError:
        return None
    return data if isinstance(data, dict) else None
