"""The audit's gate: the share of confirmed hacks over the whole run, and in every stage large enough.

Below `audit.gate_min_rollouts` audited rollouts a share is reported and not judged. A stage is judged by
itself as well, so that many clean rollouts of one stage do not hide the hacks of another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mimo.recipe.sections import Audit
from mimo.stages.audit_hacks import HackCounts, StageAudit
from mimo.stages.base import Refusal


@dataclass(frozen=True, kw_only=True, slots=True)
class HackShare:
    """Confirmed hacks among the audited rollouts of `where`; `judged`: there were enough of them."""

    where: str
    confirmed: int
    audited: int
    judged: bool

    @property
    def share(self) -> float | None:
        """Confirmed / audited; None where nothing was audited."""
        return self.confirmed / self.audited if self.audited else None

    def __str__(self) -> str:
        shown = "no share" if self.share is None else f"{self.share:.2%}"
        return f"{self.where}: {self.confirmed} of {self.audited} audited rollouts ({shown})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Gate:
    """The gate's word; `whole` is the run's share, `over` those above the limit."""

    verdict: Literal["passed", "refused", "not judged"]
    message: str
    whole: HackShare
    stages: tuple[HackShare, ...]
    over: tuple[HackShare, ...] = ()

    @property
    def refusal(self) -> Refusal | None:
        """What ends the run, None unless the gate says no."""
        if self.verdict != "refused":
            return None
        return Refusal(
            message=self.message,
            hint="look at the findings in the report (and in hacks/*.json): close the routes (the "
            "same command with `--from prepare-env`), train again, or raise audit.max_hack_share if they are "
            "false alarms",
        )


def judge(audits: Sequence[StageAudit], spec: Audit) -> Gate:
    """The gate over the counts of all audited stages; planted controls are in no count."""
    stages = tuple(_share(item.stage, item.counts, spec) for item in audits)
    whole = _share("the whole run", [row for item in audits for row in item.counts], spec)
    over = tuple(
        item
        for item in (whole, *stages)
        if item.judged and item.share is not None and item.share > spec.max_hack_share
    )
    limit = f"the limit is {spec.max_hack_share:.2%} (audit.max_hack_share)"
    if over:
        message = f"confirmed hacks over the limit in {'; '.join(map(str, over))}; {limit}"
        return Gate(verdict="refused", message=message, whole=whole, stages=stages, over=over)
    if not whole.judged:
        message = f"{whole}; not judged below {spec.gate_min_rollouts} (audit.gate_min_rollouts); {limit}"
        return Gate(verdict="not judged", message=message, whole=whole, stages=stages)
    return Gate(verdict="passed", message=f"{whole}; {limit}", whole=whole, stages=stages)


def _share(where: str, counts: Sequence[HackCounts], spec: Audit) -> HackShare:
    audited = sum(row.audited for row in counts)
    return HackShare(
        where=where,
        confirmed=sum(row.confirmed for row in counts),
        audited=audited,
        judged=audited >= spec.gate_min_rollouts,
    )
