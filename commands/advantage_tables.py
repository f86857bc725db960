"""The answer of `mimo advantages` as rich tables, one a group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from rich.table import Table

from mimo.types import Json

COLUMNS = ("rollout", "passed", "reward", "length penalty", "advantage")


def advantage_tables(report: dict[str, Json]) -> Iterator[Table | str]:
    """A table per group with what happened to it below, then the token penalty of the batch."""
    data = cast("dict[str, Any]", report)
    groups = data.get("groups", [data])
    for number, group in enumerate(groups):
        yield _table(group, f"group {number}" if "groups" in data else None)
    if data.get("token_penalty"):
        yield _token_line(data["token_penalty"])


def _table(group: dict[str, Any], title: str | None) -> Table:
    table = Table(title=title, caption=_caption(group), title_justify="left", caption_justify="left")
    for name in COLUMNS:
        table.add_column(name, justify="left" if name == "passed" else "right")
    columns = (group[name] for name in ("passed_after_reset", "reward", "length_penalty", "advantage"))
    for number, (passed, reward, penalty, advantage) in enumerate(zip(*columns, strict=True)):
        told = "masked" if reward is None else f"{reward:.6f}"
        sign = f"{advantage:+.6f}" if advantage else "0"
        table.add_row(str(number), "yes" if passed else "no", told, f"{penalty:.6f}" if penalty else "", sign)
    return table


def _caption(group: dict[str, Any]) -> str:
    parts = []
    if group["dropped"]:
        parts.append(f"dropped: {group['reason']}")
    if group["fallback"]:
        parts.append(f"own advantages kept: {group['fallback']}")
    if group["scale"] is not None:
        capped = f", capped to {group['scale_applied']:.6f}" if group["capped"] else ""
        parts.append(f"common factor {group['scale']:.6f}{capped}")
    if group["length_reference"] is not None:
        parts.append(f"reference length {group['length_reference']:g}")
    positive = sum(value for value in group["advantage"] if value > 0)
    return "; ".join([*parts, f"positive total {positive:.6f}"])


def _token_line(penalty: dict[str, float]) -> str:
    return (
        f"token penalty: alpha {penalty['alpha']:.6f}, beta {penalty['beta']:.6f}; "
        f"positive mass {penalty['pos_before']:.6g} -> {penalty['pos_after']:.6g}, "
        f"negative {penalty['neg_before']:.6g} -> {penalty['neg_after']:.6g}"
    )
