"""The audit's report as one HTML file: no network, no script but the bench's, all a policy wrote escaped.

`render_report(report)` takes this JSON (every key but `title` may be missing; None means «not measured»):

    title       text
    facts       {label: text or number}            recipe, variant, profile, run, commit, date, policy, ...
    notes       [text]                             what a reader must know first
    gate        {verdict: passed | refused | not judged, message: text}
    confidence  0.95                               of every interval below
    policies    [{name: base | cold-start | rl | ..., train: Rate, heldout: Rate,
                  families: {family: {split: train | heldout, ...Rate}}}]
                Rate = {rate: float, low: float, high: float, rollouts: int, passed: int, tasks: int}
    time        [{name: sampling | tool | verify | train | grade | ..., seconds: float}]
    stages      [{stage: text, seconds: float, what: ran | reused | skipped, why: text}]
    curves      [{title: text, stage: text, unit: text, bound: float, points: [[step, value], ...]}]
    counts      [{stage: text, what: masked | dropped | refused | ..., count: int, why: text}]
    tables      [{title: text, note: text, columns: [text], rows: [[text or number]]}]   anything else
    bench       [{note: which group, group: graders.bench.link_text}]   advantages to play with; the content
                policy lets only the bench's own script run, and only where there is a group
    rollouts    [{note: why it is shown, rollout: types.Rollout as JSON}]
    artifacts   [{name: text, path: text, bytes: int}]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from string import Template
from typing import Any, cast

from mimo.graders.bench import bench_element, bench_script, script_source
from mimo.stages.charts import COLOURS, Interval, curve, intervals, shares
from mimo.stages.markup import NONE, duration, number, percent, size, table, text
from mimo.stages.transcript import transcript
from mimo.types import Json

_Data = Mapping[str, Any]


def render_report(report: Mapping[str, Json]) -> str:
    """The page; see the module for the structure of `report`.

    Raises:
        KeyError: an entry of a list lacks the name it is shown under.
    """
    template = Template((files("mimo.stages") / "report.html").read_text(encoding="utf-8"))
    sections = (
        _head(report),
        _pass_rates(report),
        _families(_list(report, "policies")),
        _time(report),
        _curves(_list(report, "curves")),
        _counts(_list(report, "counts")),
        *(_free_table(entry) for entry in _list(report, "tables")),
        _bench(_list(report, "bench")),
        _rollouts(_list(report, "rollouts")),
        _artifacts(_list(report, "artifacts")),
    )
    scripts = f"; script-src {script_source()}" if report.get("bench") else ""
    body = "\n".join(filter(None, sections))
    return template.substitute(title=text(report["title"]), scripts=scripts, body=body)


def _head(report: _Data) -> str:
    facts = "".join(
        f"<div><dt>{text(label)}</dt><dd>{text(value)}</dd></div>"
        for label, value in (report.get("facts") or {}).items()
    )
    notes = "".join(f"<p>{text(note)}</p>" for note in _list(report, "notes"))
    return f'<h1>{text(report["title"])}</h1>{notes}<dl class="facts">{facts}</dl>{_gate(report.get("gate"))}'


def _gate(gate: _Data | None) -> str:
    if not gate:
        return ""
    verdict = str(gate.get("verdict"))
    kind = verdict if verdict in ("passed", "refused") else ""
    message = text(gate.get("message") or "")
    return f'<div class="card gate {kind}"><h3>Gate: {text(verdict)}</h3><p>{message}</p></div>'


def _pass_rates(report: _Data) -> str:
    policies = _list(report, "policies")
    if not policies:
        return ""
    charts = []
    for split, title in (("heldout", "Held-out tasks"), ("train", "Training tasks")):
        rows = [
            Interval(
                label=str(policy["name"]),
                rate=_rate(policy.get(split), "rate"),
                low=_rate(policy.get(split), "low"),
                high=_rate(policy.get(split), "high"),
                colour=index,
            )
            for index, policy in enumerate(policies)
        ]
        charts.append(f'<div class="card"><h3>{title}</h3>{intervals(rows)}</div>')
    rows_of_table = [
        [_key(index) + text(policy["name"]), *_cells(policy.get("heldout")), *_cells(policy.get("train"))]
        for index, policy in enumerate(policies)
    ]
    columns = ["policy", "held-out", "interval", "rollouts", "training", "interval", "rollouts"]
    lines = table(columns, rows_of_table, frozenset(range(1, 7)))
    confidence = percent(report.get("confidence"), 0)
    return (
        f'<h2>Pass rate</h2><p class="soft">Share of rollouts that passed; {confidence} intervals.</p>'
        f'<div class="grid wide">{"".join(charts)}</div><div class="card below">{lines}</div>'
    )


def _cells(rate: _Data | None) -> list[str]:
    if not rate or rate.get("rate") is None:
        return [NONE, NONE, NONE]
    interval = f"{percent(rate.get('low'))} – {percent(rate.get('high'))}"
    return [percent(rate["rate"]), interval, _of(rate)]


def _of(rate: _Data) -> str:
    """What the rate is counted from, as far as it was given: `37 of 48, 12 tasks`."""
    counted = number(rate.get("rollouts"))
    passed = f"{number(rate['passed'])} of {counted}" if rate.get("passed") is not None else counted
    tasks = f", {number(rate['tasks'])} tasks" if rate.get("tasks") is not None else ""
    return passed + tasks


def _families(policies: Sequence[_Data]) -> str:
    splits: dict[str, str] = {}
    for policy in policies:
        for family, rate in (policy.get("families") or {}).items():
            splits.setdefault(family, str(rate.get("split") or ""))
    if not splits:
        return ""

    def cell(policy: _Data, family: str) -> str:
        rate = (policy.get("families") or {}).get(family) or {}
        if rate.get("rate") is None:
            return NONE
        return f'{percent(rate["rate"], 0)} <span class="soft">{_of(rate)}</span>'

    order = sorted(splits, key=lambda family: (splits[family] != "heldout", family))
    rows = [
        [
            text(family),
            f'<span class="tag">{text(splits[family])}</span>',
            *(cell(one, family) for one in policies),
        ]
        for family in order
    ]
    columns = ["family", "split", *(str(policy["name"]) for policy in policies)]
    lines = table(columns, rows, frozenset(range(2, len(columns))))
    return f'<h2>Pass rate by family</h2><div class="card">{lines}</div>'


def _time(report: _Data) -> str:
    parts = [(str(entry["name"]), float(entry["seconds"])) for entry in _list(report, "time")]
    total = sum(seconds for _, seconds in parts)
    out = ""
    if parts:
        rows = [
            [_key(index) + text(name), duration(seconds), percent(seconds / total if total else None)]
            for index, (name, seconds) in enumerate(parts)
        ]
        lines = table(["part", "time", "share"], rows, frozenset({1, 2}))
        out += f'<h2>Where the time went</h2><div class="card">{shares(parts)}{lines}</div>'
    stages = [
        [
            text(entry["stage"]),
            text(entry.get("what")),
            duration(entry.get("seconds")),
            text(entry.get("why")),
        ]
        for entry in _list(report, "stages")
    ]
    if stages:
        lines = table(["stage", "", "time", "why"], stages, frozenset({2}))
        out += f'<h2>Stages</h2><div class="card">{lines}</div>'
    return out


def _curves(curves: Sequence[_Data]) -> str:
    cards = []
    for entry in curves:
        points = [(float(step), _float(value)) for step, value in entry.get("points") or []]
        name = " ".join(
            filter(None, [str(entry["title"]), f"({entry['unit']})" if entry.get("unit") else ""])
        )
        drawn = curve(points, name, entry.get("bound"))
        stage = f'<span class="soft"> {text(entry["stage"])}</span>' if entry.get("stage") else ""
        last = f'<p class="soft">last {number(points[-1][1])}{_bound(entry)}</p>' if points else ""
        cards.append(f'<div class="card"><h3>{text(name)}{stage}</h3>{drawn}{last}</div>')
    return f'<h2>Training</h2><div class="grid">{"".join(cards)}</div>' if cards else ""


def _bound(entry: _Data) -> str:
    return f", bound {number(entry['bound'])} (dashed)" if entry.get("bound") is not None else ""


def _counts(counts: Sequence[_Data]) -> str:
    rows = [
        [
            text(entry.get("stage")),
            text(entry["what"]),
            number(entry.get("count")),
            text(entry.get("why") or ""),
        ]
        for entry in counts
    ]
    note = '<p class="soft">Skipped, masked, dropped, refused, capped: everything that was left out.</p>'
    lines = table(["stage", "what", "count", "why"], rows, frozenset({2}))
    return f'<h2>Counts</h2>{note}<div class="card">{lines}</div>' if rows else ""


def _free_table(entry: _Data) -> str:
    rows = [[text(cell) for cell in row] for row in entry.get("rows") or []]
    note = f'<p class="soft">{text(entry["note"])}</p>' if entry.get("note") else ""
    lines = table([str(column) for column in entry.get("columns") or []], rows)
    return f'<h2>{text(entry["title"])}</h2>{note}<div class="card">{lines}</div>'


def _bench(groups: Sequence[_Data]) -> str:
    shown = "".join(
        f'<div class="card"><p class="soft">{text(entry.get("note"))}</p>'
        f"{bench_element(str(entry['group']))}</div>"
        for entry in groups
    )
    return f"<h2>Advantages of sampled groups</h2>{shown}{bench_script()}" if shown else ""


def _rollouts(rollouts: Sequence[_Data]) -> str:
    shown = "".join(transcript(entry["rollout"], str(entry.get("note") or "")) for entry in rollouts)
    return f"<h2>Sampled rollouts</h2>{shown}" if shown else ""


def _artifacts(artifacts: Sequence[_Data]) -> str:
    rows = "".join(
        f'<tr><td>{text(entry["name"])}</td><td class="path">{text(entry.get("path"))}</td>'
        f'<td class="n">{size(entry.get("bytes"))}</td></tr>'
        for entry in artifacts
    )
    return (
        f'<h2>Files</h2><div class="card scroll"><table><tbody>{rows}</tbody></table></div>' if rows else ""
    )


def _key(index: int) -> str:
    return f'<span class="key k{index % COLOURS}"></span>'


def _list(data: _Data, key: str) -> list[Any]:
    return cast("list[Any]", data.get(key) or [])


def _rate(rate: _Data | None, name: str) -> float | None:
    value = (rate or {}).get(name)
    return None if value is None else float(value)


def _float(value: Json) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")
