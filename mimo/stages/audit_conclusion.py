"""What the audit concludes from the run's records: hacks, resets, quality, corrections, gate, report.

Nothing here samples. One unit is committed for each stage whose trajectories were audited and one for the
report, so that a killed audit goes on with the next stage.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from mimo.domains.base import TaskStore
from mimo.rollouts.corrections import write_corrections
from mimo.rollouts.store import RolloutStore
from mimo.run_dir.files import write_atomic, write_json
from mimo.stages.audit_controls import check_controls
from mimo.stages.audit_corrections import chosen
from mimo.stages.audit_figures import Conclusion, headline, metrics, notes
from mimo.stages.audit_gate import judge
from mimo.stages.audit_hacks import StageAudit, audit_stage, audited_before, confirmed_rows
from mimo.stages.audit_quality import graded, qualities
from mimo.stages.audit_report import audit_report
from mimo.stages.audit_resets import Resets, unreset, verify_resets
from mimo.stages.audit_sources import OWN, Source
from mimo.stages.base import StageContext, StageResult
from mimo.stages.hack_audit import HackAudit
from mimo.stages.report import render_report
from mimo.stages.rl_loop import signal_rules
from mimo.stages.tasks import read_tasks, task_folder, task_store
from mimo.types import HackFinding, HackVerdict, Json, Rollout, Task

_TRANSCRIPTS = 6


def conclude(
    ctx: StageContext,
    rollouts: Mapping[str, Sequence[Rollout]],
    found: Sequence[Source],
    rates: Mapping[str, Json],
) -> StageResult:
    """Audit what is not audited yet, then write corrections and report.

    Args:
        rollouts: policy -> its evaluation rollouts, in the policies' order.
        found: where all trajectories lie.
        rates: policy -> pass rates, as `audit_report` takes them.
    """
    units = len(rollouts) + len(found) + 1
    repeated = ctx.resume is not None and ctx.resume.step >= units
    tasks = {task.task_id: task for task in read_tasks(task_folder(ctx))}
    store = task_store(ctx)
    audits, planted = _audits(ctx, found, store, tasks, first=len(rollouts))
    conclusion = _conclusion(ctx, audits, planted, rollouts, store, tasks)
    write_corrections(ctx.out / "corrections.jsonl", conclusion.corrections)
    if not repeated:
        _count(ctx, conclusion)
        ctx.log(units, metrics(conclusion))
    _write_report(ctx, conclusion, rates, _transcripts(conclusion, rollouts))
    ctx.commit(units, {})
    conclusion.resets.check(str(ctx.out / "report.html"))
    return StageResult(
        headline=headline(conclusion, rates),
        notes=(*notes(conclusion, rates), f"report: {ctx.out / 'report.html'}"),
        refusal=conclusion.gate.refusal,
    )


def _audits(
    ctx: StageContext, found: Sequence[Source], store: TaskStore, tasks: Mapping[str, Task], *, first: int
) -> tuple[list[StageAudit], int]:
    """Each stage's audit, made now or before; and the controls that came out as expected."""
    audit = HackAudit(store)
    planted = check_controls(ctx, audit, store, list(tasks.values()))
    done = 0 if ctx.resume is None else ctx.resume.step
    audits = []
    for place, source in enumerate(found, first):
        before = audited_before(ctx.out, source.stage) if place < done else None
        if before is None:
            before = audit_stage(ctx, source, audit, tasks, place=place, of=first + len(found) + 1)
            _count_stage(ctx, before)
            ctx.commit(place + 1, {})
            ctx.check_stop()
        audits.append(before)
    return audits, planted


def _count_stage(ctx: StageContext, found: StageAudit) -> None:
    total: Counter[str] = Counter()
    for row in found.counts:
        total.update(row.verdicts)
    for verdict in (HackVerdict.SUSPECTED, HackVerdict.CONFIRMED, HackVerdict.UNAUDITED):
        if total[verdict]:
            ctx.count(f"hack audit: {verdict}", total[verdict], why=f"trajectories of {found.stage}")
    if found.planted:
        ctx.count("planted control left out of the hack share", found.planted, why=found.stage)
    if found.without_task:
        ctx.count("rollout of a task that is not in the set", found.without_task, why=found.stage)


def _conclusion(
    ctx: StageContext,
    audits: Sequence[StageAudit],
    planted: int,
    rollouts: Mapping[str, Sequence[Rollout]],
    store: TaskStore,
    tasks: Mapping[str, Task],
) -> Conclusion:
    started = time.monotonic()
    confirmed = frozenset(row.rollout_id for row in confirmed_rows(audits, OWN))
    rows = graded(
        rollouts,
        RolloutStore(ctx.out),
        store,
        tasks,
        confirmed=confirmed,
        on_task=lambda done, total: ctx.progress(done, total, "task", "grading"),
    )
    grade_s = time.monotonic() - started
    kept, left_out = chosen(
        [item for found in audits for item in found.candidates], ctx.recipe.audit.max_corrections
    )
    faults: Counter[str] = Counter()
    for found in audits:
        faults.update(found.faults)
        left_out.update(found.left_out)
    return Conclusion(
        audits=tuple(audits),
        planted=planted,
        gate=judge(audits, ctx.recipe.audit),
        resets=_resets(ctx, audits, tasks),
        quality=tuple(qualities(rows, rollouts, tasks, confidence=ctx.recipe.audit.confidence)),
        corrections=tuple(kept),
        faults=dict(faults),
        left_out={reason: number for reason, number in left_out.items() if number},
        grade_s=grade_s,
    )


def _resets(ctx: StageContext, audits: Sequence[StageAudit], tasks: Mapping[str, Task]) -> Resets:
    """rl-mixed's by recomputation; mopd2's where its outcomes are used (it keeps no groups): the rewards."""
    if "rl-mixed" not in ctx.inputs:
        return Resets()
    hacks = list(confirmed_rows(audits, "rl-mixed"))
    found = verify_resets(ctx.inputs["rl-mixed"], hacks, signal_rules(ctx.recipe), tasks)
    if ctx.recipe.mopd2.alpha == 0:
        return found
    others = [row for row in confirmed_rows(audits, "mopd2") if row.reward is not None]
    wrong = unreset(others)
    return replace(
        found,
        confirmed=found.confirmed + len(others),
        verified=found.verified + len(others) - len(wrong),
        mismatches=(*found.mismatches, *wrong),
    )


def _count(ctx: StageContext, conclusion: Conclusion) -> None:
    """What must not pass silently, once."""
    for reason, number in sorted(conclusion.left_out.items()):
        ctx.count(f"faulty turn that became no correction: {reason}", number)
    for row in conclusion.quality:
        if row.ungraded:
            ctx.count("passing rollout ungraded", row.ungraded, why=f"{row.policy}, {row.split}")
    if conclusion.gate.verdict == "not judged":
        ctx.count("hack share not judged", why=conclusion.gate.message)


def _write_report(
    ctx: StageContext, conclusion: Conclusion, rates: Mapping[str, Json], shown: Sequence[Rollout]
) -> None:
    data = audit_report(ctx, conclusion, rates, sample=shown)
    write_json(ctx.out / "report.json", data)
    page = render_report(json.loads(json.dumps(data)))
    write_atomic(ctx.out / "report.html", page.encode("utf-8", "surrogatepass"))


def _transcripts(conclusion: Conclusion, rollouts: Mapping[str, Sequence[Rollout]]) -> list[Rollout]:
    """A few rollouts of the last policy: findings first, then some that pass, some that do not."""
    found = {
        row.rollout_id: row.finding for item in conclusion.audits if item.stage == OWN for row in item.rows
    }
    clean = HackFinding(verdict=HackVerdict.CLEAN)
    last = list(rollouts.values())[-1]
    rows = [replace(item, hack=found.get(item.rollout_id, clean)) for item in last]
    odd = [item for item in rows if item.rollout_id in found]
    good = [item for item in rows if item not in odd and item.verdict is not None and item.verdict.passed]
    bad = [item for item in rows if item not in odd and item not in good]
    half = _TRANSCRIPTS // 2
    return odd[:half] + good[:half] + bad[: _TRANSCRIPTS - min(len(good), half)]
