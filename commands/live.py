"""Live views of a run: bars on a terminal, heartbeat lines elsewhere (standard error), or JSON lines."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from commands.render import clean, duration, plan_table
from mimo.pipeline.observe import Blind, Observer
from mimo.pipeline.plan import Plan
from mimo.records import to_json
from mimo.types import Event

MODES = ("auto", "bar", "plain", "none")
_KILL_HINT = "press Ctrl-C again to kill"


@dataclass(slots=True)
class _Pace:
    """Rate and time left, from the progress told since this start."""

    first_done: int = 0
    first_at: float = field(default_factory=time.monotonic)
    done: int = 0
    total: int = 0
    unit: str = ""
    note: str = ""

    def tell(self, done: int, total: int, unit: str, note: str) -> None:
        if self.total == 0 or unit != self.unit:
            self.first_done, self.first_at = done, time.monotonic()
        self.done, self.total, self.unit, self.note = done, total, unit, note

    def text(self) -> str:
        """`3/8 step, 1.5/min, about 3 min 20 s left`."""
        if not self.unit:
            return ""
        shown = f"{self.done}/{self.total} {self.unit}" if self.total else f"{self.done} {self.unit}"
        seconds, did = time.monotonic() - self.first_at, self.done - self.first_done
        if did > 0 and seconds > 0 and self.total:
            left = (self.total - self.done) * seconds / did
            shown += f", {did / seconds * 60:.3g}/min, about {duration(left)} left"
        return shown + (f"; {self.note}" if self.note else "")


def event_line(event: Event) -> str | None:
    """The line a person wants to see of an event, or None."""
    about, stage = event.about, event.stage
    lines: dict[str, Callable[[], str]] = {
        "decided": lambda: f"{stage}: {about['state']} ({about['reason']})",
        "reused": lambda: f"{stage}: reused ({about['reason']})",
        "skipped": lambda: f"{stage}: skipped ({about['reason']})",
        "done": lambda: f"{stage}: done, {about['committed']} units in {duration(_float(about['wall_s']))}",
        "refused": lambda: f"{stage}: its gate says no",
        "stopping": lambda: f"{stage}: stopping when the step in flight is saved; {_KILL_HINT}",
        "stopped": lambda: f"{stage}: stopped, {about['committed']} units are saved",
        "failed": lambda: f"{stage}: failed, {about['committed']} units are saved",
        "count": lambda: f"{stage}: {about['what']}" + (f" ({about['why']})" if about["why"] else ""),
        "leftovers-killed": lambda: f"{stage}: left processes behind, killed: {about['processes']}",
        "boxes-removed": lambda: f"{stage}: removed {_boxes(about['count'])} of dead processes",
        "reaper": lambda: f"{stage}: {about['message']}",
        "rewound": lambda: f"{stage}: goes on after step {about['step']}, not {about['before']} (damaged)",
        "code-changed": lambda: f"{stage}: its code changed since the plan was made; the new code runs",
        "tracking": lambda: str(about["message"]),
        "found-killed": lambda: f"an earlier start of this run (process {about['pid']}) was killed",
    }
    line = lines.get(event.event)
    return clean(line()) if line else None


def _float(value: object) -> float:
    return float(str(value))


def _boxes(count: object) -> str:
    return "1 sandbox" if count == 1 else f"{count} sandboxes"


class PlainView:
    """Lines with a clock: one an event, and a heartbeat while a stage runs. A count is told once a stage."""

    def __init__(self, heartbeat_s: float, write: Callable[[str], None] | None = None) -> None:
        self._heartbeat_s = heartbeat_s
        self._write = write or (lambda line: click.echo(line, err=True))
        self._counted: set[tuple[str | None, str]] = set()
        self._pace = _Pace()
        self._stage: str | None = None
        self._began = self._told = time.monotonic()

    def planned(self, plan: Plan) -> None:
        """The plan as a table."""
        console = Console(stderr=True, highlight=False, soft_wrap=True, width=160)
        with console.capture() as captured:
            console.print(plan_table(plan))
        self._write(captured.get().rstrip())

    def event(self, event: Event) -> None:
        """A line, if a person wants it."""
        if event.event == "start":
            self._stage, self._pace, self._began = event.stage, _Pace(), time.monotonic()
        if event.event in ("done", "failed", "stopped"):
            self._stage = None
        key = (event.stage, str(event.about.get("what")))
        if event.event == "count" and key in self._counted:
            return
        self._counted.add(key)
        line = event_line(event)
        if line:
            self._say(line)

    def progress(self, stage: str, done: int, total: int, unit: str, note: str) -> None:  # noqa: ARG002
        """Remembered for the heartbeat."""
        self._pace.tell(done, total, unit, clean(note))

    def tick(self) -> None:
        """A heartbeat when it is time."""
        if self._stage and time.monotonic() - self._told >= self._heartbeat_s:
            where = self._pace.text() or "running"
            self._say(f"{self._stage}: {where} ({duration(time.monotonic() - self._began)})")

    def _say(self, line: str) -> None:
        self._told = time.monotonic()
        self._write(f"{time.strftime('%H:%M:%S')} {line}")


class BarView:
    """One bar for the running stage with rate and time left, events above it; a context manager."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[where]}"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
        )
        self._plain = PlainView(float("inf"), self._above)
        self._pace = _Pace()
        self._task: TaskID | None = None

    def __enter__(self) -> BarView:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def planned(self, plan: Plan) -> None:
        """The plan as a table."""
        self._console.print(plan_table(plan))

    def event(self, event: Event) -> None:
        """A new bar for a stage that starts; a line above it for other events."""
        if event.event == "start":
            self._drop()
            self._pace = _Pace()
            self._task = self._bars.add_task(clean(event.stage), total=None, where="starting")
        if event.event in ("done", "failed", "stopped"):
            self._drop()
        self._plain.event(event)

    def progress(self, stage: str, done: int, total: int, unit: str, note: str) -> None:  # noqa: ARG002
        """Moves the bar."""
        self._pace.tell(done, total, unit, clean(note))
        if self._task is not None:
            self._bars.update(self._task, completed=done, total=total or None, where=self._pace.text())

    def tick(self) -> None:
        """Nothing: the bars draw themselves."""

    def _above(self, line: str) -> None:
        self._console.print(Text(line))

    def _drop(self) -> None:
        if self._task is not None:
            self._bars.remove_task(self._task)
            self._task = None


class JsonView:
    """Every event as a JSON line on standard output."""

    def planned(self, plan: Plan) -> None:
        """The plan as one line."""
        click.echo(json.dumps({"event": "plan", "ts": time.time(), **plan.as_json()}))

    def event(self, event: Event) -> None:
        """One line."""
        click.echo(json.dumps(to_json(event)))

    def progress(self, stage: str, done: int, total: int, unit: str, note: str) -> None:
        """Nothing: commits are events."""

    def tick(self) -> None:
        """Nothing."""


def choose_view(mode: str, *, as_json: bool, heartbeat_s: float) -> Observer | BarView:
    """The view for `--progress` and `--json`: bars only where there is a terminal."""
    if as_json:
        return JsonView()
    if mode == "none":
        return Blind()
    if mode == "bar" or (mode == "auto" and Console(stderr=True).is_terminal):
        return BarView()
    return PlainView(heartbeat_s)
