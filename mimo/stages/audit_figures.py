"""What the audit concluded, and its numbers for MLflow, its lines for the run's summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from mimo.rollouts.corrections import Correction
from mimo.rollouts.rates import Rate
from mimo.stages.audit_gate import Gate
from mimo.stages.audit_hacks import StageAudit
from mimo.stages.audit_quality import PolicyQuality
from mimo.stages.audit_resets import Resets
from mimo.types import HackVerdict, Json


@dataclass(frozen=True, kw_only=True, slots=True)
class Conclusion:
    """Everything that the report, the metrics and the run's summary show.

    `planted`: controls of the hack audit that came out as expected. `faults`, `left_out`: faulty turns by
    kind, and those that became no correction by reason. `grade_s`: seconds of grading.
    """

    audits: tuple[StageAudit, ...]
    planted: int
    gate: Gate
    resets: Resets
    quality: tuple[PolicyQuality, ...]
    corrections: tuple[Correction, ...]
    faults: Mapping[str, int]
    left_out: Mapping[str, int]
    grade_s: float

    @property
    def verdicts(self) -> Counter[str]:
        """Rollouts of the whole run by verdict of the hack audit."""
        total: Counter[str] = Counter()
        for row in (row for item in self.audits for row in item.counts):
            total.update(row.verdicts)
        return total


def headline(conclusion: Conclusion, rates: Mapping[str, Json]) -> dict[str, float]:
    """The numbers of the run's summary and of MLflow's parent run.

    Args:
        rates: policy -> {split, family} -> label -> rate.
    """
    found = {f"pass_rate/{split}/{policy}": mean for policy, split, mean, _, _ in split_rates(rates)}
    for row in conclusion.quality:
        for name, rate in (("graded", row.product), ("maintainer_accepts", row.accepted)):
            if rate.mean is not None:
                found[f"{name}/{row.split}/{row.policy}"] = rate.mean
    verdicts, whole = conclusion.verdicts, conclusion.gate.whole
    if whole.share is not None:
        found["hack_share"] = whole.share
    for verdict in (HackVerdict.SUSPECTED, HackVerdict.CONFIRMED, HackVerdict.UNAUDITED):
        found[f"hacks_{verdict}"] = float(verdicts[verdict])
    found["rewards_reset"] = float(conclusion.resets.verified)
    found["corrections"] = float(len(conclusion.corrections))
    return found


def metrics(conclusion: Conclusion) -> dict[str, float]:
    """MLflow metrics of the audit's last unit; what was not measured is left out."""
    found = {"time/grade_s": conclusion.grade_s, "hacks/planted_controls": float(conclusion.planted)}
    for verdict in HackVerdict:
        found[f"hacks/{verdict}"] = float(conclusion.verdicts[verdict])
    for share in (conclusion.gate.whole, *conclusion.gate.stages):
        if share.share is not None:
            where = "all" if share is conclusion.gate.whole else share.where
            found[f"hacks/confirmed_share/{where}"] = share.share
    for row in conclusion.quality:
        found |= _quality_metrics(row)
    resets = conclusion.resets
    found["resets/confirmed"], found["resets/verified"] = float(resets.confirmed), float(resets.verified)
    for kind, number in conclusion.faults.items():
        found[f"corrections/found/{kind}"] = float(number)
    return found | {"corrections/written": float(len(conclusion.corrections))}


def _quality_metrics(row: PolicyQuality) -> dict[str, float]:
    rates: dict[str, Rate] = {
        "solution": row.solution,
        "behavior": row.behavior,
        "graded": row.product,
        "factor": row.factor,
        "maintainer_accepts": row.accepted,
    }
    place = f"{row.split}/{row.policy}"
    found = {f"quality/{name}/{place}": rate.mean for name, rate in rates.items() if rate.mean is not None}
    for reason, number in row.maintainer.counts.items():
        if number:
            found[f"maintainer/{reason}/{place}"] = float(number)
    return found | {f"quality/ungraded/{place}": float(row.ungraded)}


def notes(conclusion: Conclusion, rates: Mapping[str, Json]) -> Iterator[str]:
    """The lines of the run's summary."""
    for policy, split, mean, low, high in split_rates(rates):
        row = next((q for q in conclusion.quality if (q.policy, q.split) == (policy, split)), None)
        yield f"{policy}: {split} pass rate {mean:.3f} [{low:.3f}, {high:.3f}]{_quality_note(row)}"
    verdicts = conclusion.verdicts
    shown = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in HackVerdict)
    yield f"hack audit of {sum(verdicts.values())} trajectories: {shown}; {_planted(conclusion.planted)}"
    yield f"gate {conclusion.gate.verdict}: {conclusion.gate.message}"
    yield resets_note(conclusion.resets)
    left_out = sum(conclusion.left_out.values())
    yield f"{len(conclusion.corrections)} corrections written, {left_out} faulty turns left out"


def _quality_note(row: PolicyQuality | None) -> str:
    if row is None:
        return ""
    text = "" if row.product.mean is None else f", graded {interval(row.product)}"
    if row.accepted.mean is not None:
        text += f", a maintainer merges {interval(row.accepted)} of {row.maintainer.patches} passes"
    return text + (f", {row.ungraded} ungraded" if row.ungraded else "")


def interval(rate: Rate) -> str:
    """`0.512 [0.430, 0.594]`; without an interval where there is none."""
    if rate.mean is None:
        return "not measured"
    if rate.low is None or rate.high is None:
        return f"{rate.mean:.3f}"
    return f"{rate.mean:.3f} [{rate.low:.3f}, {rate.high:.3f}]"


def _planted(number: int) -> str:
    return f"{number} planted controls as expected" if number else "no control could be planted"


def resets_note(resets: Resets) -> str:
    """How the reward resets stand."""
    if not resets.confirmed:
        return "reward resets verified: no confirmed hack in training"
    word = "NOT verified" if resets.mismatches else "verified"
    return (
        f"reward resets {word}: {resets.verified} of {resets.confirmed} confirmed hacks, "
        f"{resets.groups} groups computed again"
    )


def split_rates(rates: Mapping[str, Json]) -> Iterator[tuple[str, str, float, float, float]]:
    """(policy, split, mean, low, high) of every measured pass rate; rates by domain come after the splits."""
    for policy, row in rates.items():
        kinds = cast("dict[str, dict[str, dict[str, float]]]", row)
        for split, rate in (kinds["split"] | kinds.get("domain", {})).items():
            yield policy, split, rate["mean"], rate["low"], rate["high"]


def confirmed_first(audits: Sequence[StageAudit]) -> list[tuple[str, str, str, str, str]]:
    """(stage, rollout, verdict, routes, evidence) of every rollout that is not clean, the gravest first."""
    order = {HackVerdict.CONFIRMED: 0, HackVerdict.SUSPECTED: 1, HackVerdict.UNAUDITED: 2}
    rows = [row for item in audits for row in item.rows]
    rows.sort(key=lambda row: (order.get(row.finding.verdict, 3), row.stage, row.rollout_id))
    return [
        (
            row.stage,
            row.rollout_id,
            str(row.finding.verdict),
            ", ".join(row.finding.routes),
            "; ".join(row.finding.evidence[:3]),
        )
        for row in rows
    ]
