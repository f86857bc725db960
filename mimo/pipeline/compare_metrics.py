"""The headline numbers of two runs side by side, pass rates with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from mimo.pipeline.compare_rates import Share, counted_share, difference, reported_share
from mimo.pipeline.compared_run import ComparedRun
from mimo.types import Json

_SPLITS = ("heldout", "train")
_FIRST_AND_LAST = (("pass_rate_first_step", 0), ("pass_rate_last_step", -1))


def compared_metrics(a: ComparedRun, b: ComparedRun) -> list[dict[str, Json]]:
    """Rows {name, a, b, difference}: pass rates of the audits' policies, first and last step of rl-mixed,
    then every other headline number of a stage, which has a value only."""
    return [*_shares(a, b), *_headlines(a, b)]


def confidence(side: ComparedRun) -> float:
    """Of the report's intervals; of the recipe while there is no report."""
    audit = side.record.recipe.get("audit")
    wanted = audit.get("confidence") if isinstance(audit, dict) else None
    return float(str((side.report or {}).get("confidence") or wanted or 0.95))


def _shares(a: ComparedRun, b: ComparedRun) -> list[dict[str, Json]]:
    """Pass rates with intervals: every policy's of the audits, then the first and last step of rl-mixed."""
    mine, other = _measured(a), _measured(b)
    comparable = confidence(a) == confidence(b)
    rows: list[dict[str, Json]] = []
    for name in dict.fromkeys([*mine, *other]):
        row: dict[str, Json] = {"name": name}
        row |= {side: found[name].as_json() for side, found in (("a", mine), ("b", other)) if name in found}
        if comparable and name in mine and name in other:
            row["difference"] = difference(mine[name], other[name])
        rows.append(row)
    return rows


def _measured(side: ComparedRun) -> dict[str, Share]:
    level = confidence(side)
    found: dict[str, Share] = {}
    policies = cast("list[dict[str, Json]]", (side.report or {}).get("policies") or [])
    for split in _SPLITS:
        for policy in policies:
            rate = policy.get(split)
            share = reported_share(rate, level) if isinstance(rate, dict) else None
            if share is not None:
                found[f"audit/pass_rate/{split}/{policy['name']}"] = share
    sampled = [row for row in side.metrics("rl-mixed") if _groups(row) > 0]
    for name, index in _FIRST_AND_LAST if sampled else ():
        row = cast("Mapping[str, float]", sampled[index])
        found[f"rl-mixed/{name}"] = counted_share(
            row["rollouts/pass_rate_all"],
            rollouts=int(row["rollouts/total"]),
            tasks=_groups(sampled[index]),
            confidence=level,
        )
    return found


def _groups(row: Mapping[str, Json]) -> int:
    return int(float(str(row.get("groups/sampled") or 0))) if "rollouts/pass_rate_all" in row else 0


def _headlines(a: ComparedRun, b: ComparedRun) -> list[dict[str, Json]]:
    """The stages' other headline numbers."""
    told = {*_measured(a), *_measured(b)}
    mine, other = _told(a), _told(b)
    rows: list[dict[str, Json]] = []
    for name in dict.fromkeys([*mine, *other]):
        if name in told:
            continue
        row: dict[str, Json] = {"name": name}
        row |= {side: {"value": found[name]} for side, found in (("a", mine), ("b", other)) if name in found}
        if name in mine and name in other:
            row["difference"] = {"value": other[name] - mine[name]}
        rows.append(row)
    return rows


def _told(side: ComparedRun) -> dict[str, float]:
    """Every headline number as `stage/name`."""
    return {
        f"{item.stage}/{name}": value
        for item in side.stages.values()
        if item.manifest is not None
        for name, value in item.manifest.headline.items()
    }
