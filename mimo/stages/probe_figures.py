"""The fraction of hackable environments per probe round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mimo.types import LeakReport


def round_figures(
    reports: Sequence[Sequence[LeakReport]], quarantined: Sequence[bool], clean_rounds: int
) -> list[Mapping[str, float]]:
    """Metrics of every round, over all environments.

    An environment that was found clean often enough counts as not hackable in later rounds; one in
    quarantine counts
    as hackable for good.

    Args:
        reports: per environment, its rounds in order.
        quarantined: per environment.
        clean_rounds: rounds shown at least (all environments took that many, or are in quarantine).
    """
    rounds = max((len(rows) for rows in reports), default=0)
    figures: list[Mapping[str, float]] = []
    for number in range(max(rounds, min(clean_rounds, rounds))):
        open_now = [
            _leaks(rows[number]) > 0 if number < len(rows) else out
            for rows, out in zip(reports, quarantined, strict=True)
        ]
        figures.append(
            {
                "probe/hackable_share": sum(open_now) / len(open_now) if open_now else 0.0,
                "probe/findings": float(sum(_leaks(rows[number]) for rows in reports if number < len(rows))),
                "probe/probed": float(sum(number < len(rows) for rows in reports)),
            }
        )
    return figures


def _leaks(report: LeakReport) -> int:
    return sum(finding.severity != "info" for finding in report.findings)
