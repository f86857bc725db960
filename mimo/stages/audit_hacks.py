"""The hack audit of every trajectory of a run, a stage at a time; each stage's result is one file.

`hacks/STAGE.json` in the audit's output holds the counts, every finding that is not clean, and what faulty
turns the same reading found; a resumed audit goes on with the stage after the last file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from mimo.records import from_json, to_json
from mimo.rollouts.corrections import Correction
from mimo.run_dir.files import write_json
from mimo.stages.audit_corrections import Faults
from mimo.stages.audit_sources import PLANTED, Source, policy_of
from mimo.stages.base import StageContext
from mimo.stages.hack_audit import HackAudit
from mimo.types import HackFinding, HackVerdict, Json, Rollout, Task, record

VERDICTS = tuple(str(verdict) for verdict in HackVerdict)
_SAID_EVERY = 200


@record
class HackRow:
    """A rollout that is not clean: where, by which policy, what was found, and what the stage itself said.

    `recorded` is the verdict that the stage wrote down when it trained (None: it does not audit).
    """

    stage: str
    policy: str
    rollout_id: str
    group_id: str
    task_id: str
    step: int
    passed: bool | None
    reward: float | None
    recorded: HackVerdict | None
    finding: HackFinding


@record
class HackCounts:
    """Rollouts of one policy in one stage by verdict; `planted` controls are in none of the others."""

    stage: str
    policy: str
    verdicts: dict[str, int]

    @property
    def audited(self) -> int:
        """Rollouts with a verdict other than unaudited."""
        return sum(self.verdicts.values()) - self.verdicts.get(HackVerdict.UNAUDITED, 0)

    @property
    def confirmed(self) -> int:
        """Rollouts with a confirmed hack."""
        return self.verdicts.get(HackVerdict.CONFIRMED, 0)


@record
class StageAudit:
    """All that the audit of one stage's trajectories found; candidates for corrections included."""

    stage: str
    counts: tuple[HackCounts, ...]
    rows: tuple[HackRow, ...]
    planted: int
    without_task: int
    faults: dict[str, int]
    left_out: dict[str, int]
    candidates: tuple[Correction, ...]


@dataclass(slots=True)
class _Seen:
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    rows: list[HackRow] = field(default_factory=list)
    faults: Faults = field(default_factory=Faults)
    planted: int = 0
    without_task: int = 0


def audit_stage(
    ctx: StageContext, source: Source, audit: HackAudit, tasks: Mapping[str, Task], *, place: int, of: int
) -> StageAudit:
    """Audit every rollout of a stage, write its file, give back what it holds."""
    seen = _Seen()
    for number, rollout in enumerate(source.rollouts()):
        if number % _SAID_EVERY == 0:
            ctx.progress(place, of, "unit", f"hack audit of {source.stage}: {number} rollouts")
        _see(seen, source, rollout, audit, tasks)
    seen.faults.bound(ctx.recipe.audit.max_corrections)
    found = StageAudit(
        stage=source.stage,
        counts=tuple(
            HackCounts(stage=source.stage, policy=policy, verdicts=dict(row))
            for policy, row in seen.counts.items()
        ),
        rows=tuple(seen.rows),
        planted=seen.planted,
        without_task=seen.without_task,
        faults=dict(seen.faults.found),
        left_out=dict(seen.faults.left_out),
        candidates=tuple(seen.faults.usable),
    )
    path = _file(ctx.out, source.stage)
    path.parent.mkdir(exist_ok=True)
    write_json(path, to_json(found))
    return found


def _see(seen: _Seen, source: Source, rollout: Rollout, audit: HackAudit, tasks: Mapping[str, Task]) -> None:
    if rollout.policy == PLANTED:
        seen.planted += 1
        return
    task = tasks.get(rollout.task_id)
    if task is None:
        finding = HackFinding(verdict=HackVerdict.UNAUDITED)
        seen.without_task += 1
    else:
        finding = audit.finding(task, rollout)
        seen.faults.see(source, rollout, task, finding)
    policy = policy_of(rollout)
    seen.counts.setdefault(policy, Counter())[str(finding.verdict)] += 1
    recorded = None if rollout.hack is None else rollout.hack.verdict
    if finding.verdict is not HackVerdict.CLEAN or recorded not in (None, HackVerdict.CLEAN):
        seen.rows.append(_row(source.stage, policy, rollout, finding))


def _row(stage: str, policy: str, rollout: Rollout, finding: HackFinding) -> HackRow:
    return HackRow(
        stage=stage,
        policy=policy,
        rollout_id=rollout.rollout_id,
        group_id=rollout.group_id,
        task_id=rollout.task_id,
        step=rollout.step,
        passed=None if rollout.verdict is None else rollout.verdict.passed,
        reward=rollout.reward,
        recorded=None if rollout.hack is None else rollout.hack.verdict,
        finding=finding,
    )


def audited_before(out: Path, stage: str) -> StageAudit | None:
    """What an earlier start of the audit wrote for a stage; None if it did not come to it."""
    path = _file(out, stage)
    if not path.exists():
        return None
    return from_json(StageAudit, cast("dict[str, Json]", json.loads(path.read_bytes())))


def _file(out: Path, stage: str) -> Path:
    return out / "hacks" / f"{stage}.json"


def confirmed_rows(audits: Sequence[StageAudit], stage: str) -> Iterator[HackRow]:
    """The rollouts of a stage whose hack is confirmed, by this audit or by the stage itself."""
    for item in audits:
        if item.stage == stage:
            yield from (
                row for row in item.rows if HackVerdict.CONFIRMED in (row.finding.verdict, row.recorded)
            )


def by_route(audits: Sequence[StageAudit]) -> dict[str, Counter[str]]:
    """Route -> number of rollouts by verdict; a rollout counts once for each of its routes."""
    found: dict[str, Counter[str]] = {}
    for row in (row for item in audits for row in item.rows):
        for route in dict.fromkeys(row.finding.routes):
            found.setdefault(route, Counter())[str(row.finding.verdict)] += 1
    return dict(sorted(found.items()))
