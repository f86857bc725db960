"""Tables and messages: data in, renderable out; control characters in what is shown are left out."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from mimo.pipeline.decide import Decision, State
from mimo.pipeline.explain import Cause
from mimo.pipeline.gc import Removable
from mimo.pipeline.plan import Plan
from mimo.pipeline.report import Outcome, Report
from mimo.pipeline.status import Standing
from mimo.run_dir.runs import RunFolder
from mimo.types import Json

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_STYLES = {
    "cached": "green",
    "reused": "green",
    "ran": "green",
    "failed": "red",
    "damaged": "red",
    "blocked": "red",
    "stale-code": "yellow",
    "stopped": "yellow",
}


def output() -> Console:
    """Standard output: results. Wide enough to keep a line a line when it is no terminal."""
    console = Console(highlight=False, soft_wrap=True)
    return console if console.is_terminal else Console(highlight=False, soft_wrap=True, width=200)


def clean(text: object) -> str:
    """The text without control characters (terminal escapes) but tab and newline."""
    return _CONTROLS.sub("", str(text))


def duration(seconds: float) -> str:
    """`8.2 s`, `3 min 20 s`, `2 h 05 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def size(num_bytes: float) -> str:
    """`512 B`, `1.5 kB`, `2.3 GB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if num_bytes < 1000:
            return f"{num_bytes:.0f} {unit}" if unit == "B" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1000
    return f"{num_bytes:.1f} TB"


def number(value: float) -> str:
    """`3`, `0.512`, `1.2e-06`."""
    return f"{value:.0f}" if value == int(value) and abs(value) < 1e9 else f"{value:.4g}"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A plain table, a row a line."""
    made = Table(box=None, pad_edge=False, show_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold", no_wrap=column == "stage")
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else Text(clean(cell)) for cell in row))
    return made


def word(text: str) -> Text:
    """A state or outcome in its colour."""
    return Text(text, style=_STYLES.get(text, ""))


def plan_table(plan: Plan) -> RenderableType:
    """The plan: a stage a line, with its state and reason."""
    rows = []
    for name, decision in plan.decisions.items():
        left = name not in plan.selected and decision.state not in (State.SKIPPED, State.NOT_BUILT)
        rows.append(
            (name, Text("-") if left else word(str(decision.state)), _plan_reason(decision, left=left))
        )
    return table(("stage", "plan", "why"), rows)


def _plan_reason(decision: Decision, *, left: bool) -> str:
    if not left:
        return decision.reason
    return "not selected" + (", result is there" if decision.state is State.CACHED else "")


def summary(report: Report) -> RenderableType:
    """What ran, was reused or skipped and why, counts, times, headline, and what to do next."""
    rows = [(item.stage, word(item.what), _time(item), _why(item)) for item in report.outcomes]
    parts: list[RenderableType] = [Text(""), table(("stage", "", "time", "why"), rows)]
    for title, lines in (
        ("counts", list(_counts(report.outcomes))),
        ("warnings", report.warnings),
        ("results", [f"{name} = {number(value)}" for name, value in report.headline.items()]),
        ("notes", list(_notes(report.outcomes))),
    ):
        if lines:
            parts.append(Text(f"\n{title}", style="bold"))
            parts.extend(Text(f"  {clean(line)}") for line in lines)
    parts.append(Text(_ending(report)))
    return Group(*parts)


def _time(item: Outcome) -> str:
    if item.what in ("skipped", "left"):
        return ""
    if item.what == "reused":
        return f"(took {duration(item.manifest.wall_s)})" if item.manifest else ""
    return duration(item.seconds)


def _why(item: Outcome) -> str:
    steps = ""
    if item.what == "ran" and item.manifest is not None:
        steps = f"{item.manifest.progress.get('step')} of {item.manifest.planned} units; "
    return steps + item.why


def _counts(outcomes: Sequence[Outcome]) -> Iterable[str]:
    for item in outcomes:
        if item.counted:
            told = ", ".join(f"{what}: {amount}" for what, amount in sorted(item.counted.items()))
            yield f"{item.stage}: {told}"


def _notes(outcomes: Sequence[Outcome]) -> Iterable[str]:
    for item in outcomes:
        for note in item.manifest.notes if item.manifest else ():
            yield f"{item.stage}: {note}"


def _ending(report: Report) -> str:
    did = any(item.what not in ("reused", "skipped", "left") for item in report.outcomes)
    head = "\nnothing to do" if not did and report.error is None else ""
    lines = [head] if head else [""]
    where = f"run {report.run}" if report.run else "no run"
    lines.append(f"{where}, {duration(report.seconds)}, profile {report.profile or 'none'}")
    if report.tracking:
        lines.append(f"MLflow: {report.tracking}")
    lines.append(f"{'again' if report.error is None else 'go on'}: {report.resume}")
    return "\n".join(lines)


def standing_view(standing: Standing, recipe: str) -> RenderableType:
    """`mimo status`: the run, who runs it, the stages."""
    lines = f"{recipe}: {standing.status}"
    if standing.run is not None:
        lines += f" (run {standing.run.run_id})"
    if standing.holder is not None:
        lines += f"; process {standing.holder.get('pid')} since {standing.holder.get('started')}"
    rows = []
    for item in standing.decisions:
        if item.stage == standing.running:
            done = f"{standing.committed} of {standing.planned or '?'} units committed"
            rows.append((item.stage, word("running"), done))
        else:
            rows.append((item.stage, word(str(item.state)), item.reason))
    return Group(Text(clean(lines)), table(("stage", "state", "why"), rows))


def causes_view(causes: Sequence[Cause]) -> RenderableType:
    """`mimo explain`: the root cause first, each with its differing lines."""
    parts: list[RenderableType] = []
    for cause in causes:
        parts.append(Text.assemble((cause.stage, "bold"), " ", word(cause.state), f"  {clean(cause.reason)}"))
        if cause.lines and cause.against:
            parts.append(Text(f"  against the result of {cause.against}:"))
        parts.extend(Text(f"    {clean(line)}") for line in cause.lines)
    return Group(*parts)


def gc_table(items: Sequence[Removable]) -> RenderableType:
    """What can go, with sizes and the sum."""
    rows = [(item.stage, item.path.name, size(item.size), item.why) for item in items]
    total = size(sum(item.size for item in items))
    return Group(table(("stage", "name", "size", "why"), rows), Text(f"{len(items)} items, {total}"))


def runs_table(runs: Sequence[RunFolder], alive: Mapping[str, bool]) -> RenderableType:
    """A run a line, newest first."""
    rows = []
    for run in runs:
        record, state = run.record(), run.state()
        status = state.status if state else "new"
        if status == "running" and not alive.get(run.run_id, False):
            status = "killed"
        began = time.strftime("%Y-%m-%d %H:%M", time.localtime(record.created)) if record else ""
        took = duration(state.ended - state.started) if state and state.ended else ""
        rows.append((run.run_id, word(status), record.profile if record else "", began, took))
    return table(("run", "status", "profile", "began", "last start took"), rows)


def fields(data: Mapping[str, Json]) -> RenderableType:
    """Names and values, a line each."""
    return table(("", ""), [(name, "" if value is None else value) for name, value in data.items()])
