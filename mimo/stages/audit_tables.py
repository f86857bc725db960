"""The audit's conclusions as the report's tables and as data beside them (`report.json`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import cast

from mimo.graders.maintainer import REASONS
from mimo.hacks.catalogue import ROUTES
from mimo.records import to_json
from mimo.rollouts.corrections import KINDS
from mimo.stages.audit_figures import Conclusion, confirmed_first, interval, resets_note
from mimo.stages.audit_hacks import VERDICTS, by_route
from mimo.types import Json

_SHOWN = 40
"""Findings in the page; all of them are in `hacks/STAGE.json`."""


def conclusion_data(conclusion: Conclusion) -> dict[str, Json]:
    """The same as JSON: `hacks`, `quality`, `resets`, `corrections`."""
    gate = conclusion.gate
    return {
        "hacks": {
            "counts": [_data(row) for item in conclusion.audits for row in item.counts],
            "planted_controls": conclusion.planted,
            "planted_left_out": sum(item.planted for item in conclusion.audits),
            "shares": [
                {"where": row.where, "confirmed": row.confirmed, "audited": row.audited, "judged": row.judged}
                for row in (gate.whole, *gate.stages)
            ],
            "routes": {route: dict(row) for route, row in by_route(conclusion.audits).items()},
            "findings": [_data(row) for item in conclusion.audits for row in item.rows][:_SHOWN],
        },
        "quality": [cast(Json, asdict(row)) for row in conclusion.quality],
        "resets": cast(Json, asdict(conclusion.resets)),
        "corrections": {
            "written": len(conclusion.corrections),
            "found": dict(conclusion.faults),
            "left_out": dict(conclusion.left_out),
        },
    }


def conclusion_tables(conclusion: Conclusion) -> list[Json]:
    """The report's tables, empty ones left out."""
    made = (
        _hacks(conclusion),
        _routes(conclusion),
        _findings(conclusion),
        _quality(conclusion),
        _maintainer(conclusion),
        _corrections(conclusion),
    )
    return [table for table in made if cast("dict[str, list[Json]]", table)["rows"]]


def _data(row: object) -> Json:
    data = to_json(row)
    return {name: value for name, value in data.items() if name != "schema"}


def _table(title: str, note: str, columns: list[str], rows: list[list[Json]]) -> Json:
    return {"title": title, "note": note, "columns": cast(Json, columns), "rows": cast(Json, rows)}


def _hacks(conclusion: Conclusion) -> Json:
    rows: list[list[Json]] = []
    for item in conclusion.audits:
        for row in item.counts:
            share = f"{row.confirmed / row.audited:.2%}" if row.audited else "-"
            numbers: list[Json] = [row.verdicts.get(verdict, 0) for verdict in VERDICTS]
            rows.append([row.stage, row.policy, sum(row.verdicts.values()), *numbers, share])
    note = (
        "Every stored trajectory, by the stage that sampled it and the policy; confirmed is deterministic "
        f"evidence. Planted controls are in no count. {resets_note(conclusion.resets)}."
    )
    columns = ["stage", "policy", "rollouts", *VERDICTS, "confirmed share"]
    return _table("Hack audit", note, columns, rows)


def _routes(conclusion: Conclusion) -> Json:
    titles = {name: route.title for route in ROUTES for name in route.ids}
    rows: list[list[Json]] = [
        [route, titles.get(route, ""), counts["suspected"], counts["confirmed"], counts["unaudited"]]
        for route, counts in by_route(conclusion.audits).items()
    ]
    columns = ["route", "what it is", "suspected", "confirmed", "unaudited"]
    return _table("Routes taken", "A rollout counts once for each of its routes.", columns, rows)


def _findings(conclusion: Conclusion) -> Json:
    every = confirmed_first(conclusion.audits)
    more = len(every) - _SHOWN
    note = f"{more} more are in hacks/*.json of the output." if more > 0 else ""
    columns = ["stage", "rollout", "verdict", "routes", "evidence"]
    return _table("Findings", note, columns, [list(row) for row in every[:_SHOWN]])


def _quality(conclusion: Conclusion) -> Json:
    rows: list[list[Json]] = [
        [
            row.policy,
            row.split,
            f"{row.passed} of {row.rollouts}",
            interval(row.solution),
            interval(row.behavior),
            interval(row.product),
            interval(row.factor),
            row.ungraded,
            row.unjudged,
        ]
        for row in conclusion.quality
    ]
    note = (
        "By program analysis, all criteria of the catalogue. Solution, behaviour, rank factor: mean over "
        "passes; graded: verdict x solution x behaviour over all judged rollouts. Intervals as of pass rates "
        "by the variance between tasks. Ungraded passes and unjudged rollouts are in no mean."
    )
    columns = ["policy", "split", "passed", "solution", "behaviour", "graded", "rank factor", "ungraded"]
    return _table("Graded quality", note, [*columns, "unjudged"], rows)


def _maintainer(conclusion: Conclusion) -> Json:
    rows: list[list[Json]] = []
    for row in conclusion.quality:
        counts = row.maintainer.counts
        reasons = [f"{REASONS[name]} {counts[name]}" for name in REASONS if counts[name]]
        if row.maintainer.patches:
            accepted = f"{row.maintainer.accepted} of {row.maintainer.patches}"
            rows.append([row.policy, row.split, accepted, interval(row.accepted), "; ".join(reasons) or "-"])
    note = "Passing patches that program analysis finds nothing against; a patch counts once for each reason."
    columns = ["policy", "split", "would be merged", "share", "reasons against the others"]
    return _table("Maintainer audit", note, columns, rows)


def _corrections(conclusion: Conclusion) -> Json:
    written = _by_kind(conclusion)
    rows: list[list[Json]] = [
        [kind, text, conclusion.faults[kind], written.get(kind, 0)]
        for kind, text in KINDS.items()
        if kind in conclusion.faults
    ]
    left_out = "; ".join(f"{number} {reason}" for reason, number in sorted(conclusion.left_out.items()))
    note = (
        "corrections.jsonl of the output; a later run reads it as cold_start.corrections. "
        f"Left out: {left_out or 'nothing'}."
    )
    return _table("Corrections", note, ["kind", "what is wrong", "found", "written"], rows)


def _by_kind(conclusion: Conclusion) -> Mapping[str, int]:
    kinds = [item.kind for item in conclusion.corrections]
    return {kind: kinds.count(kind) for kind in KINDS}
