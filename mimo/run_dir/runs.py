"""The folder of a run: run.json (frozen), plan.json (of the latest start), state.json, events.jsonl."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Literal

from mimo.records import from_json, to_json
from mimo.run_dir.files import append_lines, read_json, read_lines, write_json
from mimo.run_dir.home import Home
from mimo.types import Event, Json, record

Status = Literal["running", "done", "failed", "stopped", "interrupted", "killed"]


@record
class RunRecord:
    """`run.json`: what the run was started with. Secrets stay `${env:NAME}`."""

    run: str
    recipe_file: str
    name: str
    variant: str
    profile: str
    overrides: tuple[str, ...]
    created: float
    result: str
    """sha256 of what results depend on: two runs with the same one want the same."""
    recipe: dict[str, Json]
    origins: dict[str, str]
    git: dict[str, Json]
    command: str


@record
class RunState:
    """`state.json`: how the run stands; `running` with a free lock means that it was killed."""

    status: Status
    pid: int
    host: str
    starts: int
    started: float
    ended: float | None = None
    stage: str | None = None
    message: str | None = None
    headline: dict[str, float] | None = None
    used: dict[str, str] = field(default_factory=dict)
    """Stage -> the 16-digit key of the result it used or made."""


class RunFolder:
    """Reading and writing one run's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run_id = folder.name
        self._lock = threading.Lock()

    @classmethod
    def create(cls, home: Home, record_: RunRecord) -> RunFolder:
        """A new folder with its `run.json`."""
        folder = home.run(record_.run)
        folder.mkdir(parents=True)
        write_json(folder / "run.json", to_json(record_))
        return cls(folder)

    def record(self) -> RunRecord | None:
        """`run.json`, or None when it cannot be read."""
        data = read_json(self.folder / "run.json")
        try:
            return from_json(RunRecord, data) if data else None
        except ValueError:
            return None

    def state(self) -> RunState | None:
        """`state.json`, or None before the first start."""
        data = read_json(self.folder / "state.json")
        try:
            return from_json(RunState, data) if data else None
        except ValueError:
            return None

    def write_state(self, state: RunState) -> None:
        """Replace `state.json`."""
        write_json(self.folder / "state.json", to_json(state))

    def update_state(self, **changes: object) -> None:
        """Replace fields of `state.json`."""
        state = self.state()
        if state is not None:
            self.write_state(replace(state, **changes))  # type: ignore[arg-type]

    def write_plan(self, plan: Mapping[str, Json]) -> None:
        """Freeze the plan of this start."""
        write_json(self.folder / "plan.json", plan)

    def plan(self) -> dict[str, Json] | None:
        """The plan of the latest start."""
        return read_json(self.folder / "plan.json")

    def event(self, stage: str | None, event: str, about: Mapping[str, Json]) -> Event:
        """Append one event; safe from any thread."""
        item = Event(ts=time.time(), run=self.run_id, stage=stage, event=event, about=dict(about))
        with self._lock:
            append_lines(self.folder / "events.jsonl", [to_json(item)], durable=False)
        return item

    def events(self) -> list[Event]:
        """All events, oldest first."""
        return [from_json(Event, row) for row in read_lines(self.folder / "events.jsonl")]


def new_run_id(name: str) -> str:
    """`20261129-174530-pro-3fa9`: sorts by time, names the recipe."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{name}-{secrets.token_hex(2)}"


def list_runs(home: Home, recipe_file: Path | None = None, profile: str | None = None) -> list[RunFolder]:
    """The runs of a home, newest first; only those of a recipe file or profile when given."""
    found = []
    for folder in home.runs.iterdir() if home.runs.is_dir() else []:
        run = RunFolder(folder)
        record_ = run.record()
        if record_ is None:
            continue
        if recipe_file is not None and Path(record_.recipe_file) != recipe_file.resolve():
            continue
        if profile is None or record_.profile == profile:
            found.append((record_.created, run))
    return [run for _, run in sorted(found, key=lambda item: item[0], reverse=True)]
