"""Probe every environment for leaks, scrub, rebuild and probe again, until it is clean or quarantined.

A planted control comes first: a clone of one environment with known leaks. A probe set that misses one
of them is
broken, and the stage fails before it attests anything.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Literal, cast

from mimo.domains.base import Rejected
from mimo.errors import StageFailed
from mimo.hacks.catalogue import PROBES_VERSION
from mimo.hacks.solution_text import UNREAD
from mimo.recipe.models import Recipe
from mimo.records import from_json, to_json, to_line
from mimo.run_dir.files import write_atomic
from mimo.run_dir.outputs import copy_tree
from mimo.stages.base import StageContext, StageResult
from mimo.stages.environment_probe import EnvironmentProbe, Probed
from mimo.stages.params import box_images
from mimo.stages.probe_figures import round_figures
from mimo.stages.tasks import read_tasks
from mimo.types import Json, LeakReport, Task
from sandbox.paths import remove_tree

_OWN = frozenset({"snapshots", "private", "gates", "_run"})


class ProbeHacks:
    """Probe every environment for leaks, scrub and probe again until clean."""

    name: ClassVar[str] = "probe-hacks"
    summary: ClassVar[str] = "Probe every environment for leaks, scrub and probe again until clean."
    version: ClassVar[int] = 1
    cost: ClassVar[Literal["light", "heavy"]] = "light"
    reads: ClassVar[tuple[str, ...]] = ("prepare-env",)
    built: ClassVar[bool] = True

    def params(self, recipe: Recipe) -> dict[str, Json]:
        """Rounds, the back end they run in, the version of the probes."""
        return {
            "probe_hacks": recipe.probe_hacks.model_dump(mode="json"),
            "sandbox": recipe.sandbox.model_dump(mode="json", exclude={"image"}),
            "probes_version": PROBES_VERSION,
        }

    def images(self, recipe: Recipe) -> dict[str, Json]:
        """The image boxes are made of, where the recipe names one."""
        return box_images(recipe)

    def horizon(self, recipe: Recipe) -> dict[str, int]:  # noqa: ARG002 - the contract's signature
        """Nothing to continue."""
        return {}

    def run(self, ctx: StageContext) -> StageResult:
        """The control, every environment not probed yet, then the cleaned set."""
        tasks = read_tasks(ctx.inputs["prepare-env"])
        units = max(len(tasks) + 1, ctx.recipe.probe_hacks.max_rounds)
        ctx.plan(units)
        _bring_extras(ctx)
        probe = EnvironmentProbe(ctx)
        _control(ctx, probe, tasks)
        jobs = list(enumerate(tasks))
        todo = [job for job in jobs if not _part(ctx.out, *job).exists()]
        done = len(jobs) - len(todo)
        ctx.commit(max(done + 1, ctx.resume.step if ctx.resume else 0), {})
        with _pool(ctx.recipe.runtime.prepare_concurrency) as pool:
            futures = {pool.submit(_probe_one, ctx.out, probe, *job): job[1].task_id for job in todo}
            for future in as_completed(futures):
                done += 1
                _note(ctx, futures[future], future.result())
                ctx.progress(done, len(jobs), "environment")
                if done < len(jobs):
                    ctx.commit(done + 1, {})
                    ctx.check_stop()
        return _publish(ctx, jobs, units)


def _probe_one(out: Path, probe: EnvironmentProbe, number: int, task: Task) -> Probed:
    """Probe one environment and keep what was found, so that a killed stage does not do it again."""
    probed = probe.clean(task)
    path = _part(out, number, task)
    path.parent.mkdir(parents=True, exist_ok=True)
    row: dict[str, Json] = {
        "task": cast(Json, to_json(probed.task)) if probed.task else None,
        "reason": probed.reason,
        "reports": [cast(Json, to_json(report)) for report in probed.reports],
        "seconds": probed.seconds,
    }
    write_atomic(path, json.dumps(row, ensure_ascii=False, indent=1).encode())
    return probed


def _part(out: Path, number: int, task: Task) -> Path:
    return out / "probes" / f"{number:05d}-{task.task_id}.json"


def _control(ctx: StageContext, probe: EnvironmentProbe, tasks: list[Task]) -> None:
    """Probe the planted clone, unless that was done before an interruption."""
    path = ctx.out / "control.json"
    if path.exists():
        return
    report = probe.control(tasks)
    missed = sorted(name for name, found in report.controls.items() if not found)
    if missed:
        raise StageFailed(
            f"{len(missed)} of {len(report.controls)} planted leaks were not found: {', '.join(missed)}",
            hint="the probe set is broken: nothing was attested; `tests/mimo/hacks` shows which probe fails",
        )
    write_atomic(path, json.dumps(to_json(report), ensure_ascii=False).encode())


def _bring_extras(ctx: StageContext) -> None:
    """Shared folders of the prepared set that are no task's own (a verifier's tools)."""
    for folder in sorted(ctx.inputs["prepare-env"].iterdir()):
        target = ctx.out / folder.name
        if (
            folder.is_dir()
            and folder.name not in _OWN
            and not folder.name.startswith(".")
            and not target.exists()
        ):
            work = ctx.scratch / folder.name
            copy_tree(folder, work)
            work.rename(target)


@contextmanager
def _pool(threads: int) -> Iterator[ThreadPoolExecutor]:
    pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="probe")
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _note(ctx: StageContext, task_id: str, probed: Probed) -> None:
    """Count what must not pass silently."""
    for what, number, why in _told(probed.reason, probed.reports):
        ctx.count(what, number, why=f"{task_id}: {why}"[:200])


def _told(reason: str | None, reports: Sequence[LeakReport]) -> Iterator[tuple[str, int, str]]:
    """What one environment is counted under, how often, and why."""
    routes = sorted({f.route for report in reports for f in report.findings if f.severity != "info"})
    if reason is not None:
        yield "environment quarantined", 1, reason
    elif routes:
        yield "environment scrubbed", 1, ", ".join(routes)
    first = reports[0].findings if reports else ()
    unread = [found.path for found in first if UNREAD in found.path]
    if unread:
        yield "packed piece that could not be searched", len(unread), unread[0]


def _count_lost(ctx: StageContext, rows: Sequence[dict[str, Json]], reports: list[list[LeakReport]]) -> None:
    """Count what a kill came before: an environment was probed and kept, and its count not committed."""
    wanted: Counter[str] = Counter()
    for row, found in zip(rows, reports, strict=True):
        reason = row["reason"]
        for what, number, _ in _told(None if reason is None else str(reason), found):
            wanted[what] += number
    for what, number in wanted.items():
        if (lost := number - int(str(ctx.counts.get(what, 0)))) > 0:
            ctx.count(what, lost, why="found by an earlier start")


def _publish(ctx: StageContext, jobs: list[tuple[int, Task]], units: int) -> StageResult:
    rows = [json.loads(_part(ctx.out, *job).read_bytes()) for job in jobs]
    tasks = [from_json(Task, row["task"]) for row in rows if row["task"] is not None]
    reports = [[from_json(LeakReport, report) for report in row["reports"]] for row in rows]
    quarantined = [
        Rejected(task_id=task.task_id, source=task.source.kind, reason=row["reason"])
        for (_, task), row in zip(jobs, rows, strict=True)
        if row["task"] is None
    ]
    _count_lost(ctx, rows, reports)
    control = from_json(LeakReport, json.loads((ctx.out / "control.json").read_bytes()))
    write_atomic(ctx.out / "tasks.jsonl", b"".join(map(to_line, tasks)))
    write_atomic(ctx.out / "quarantined.jsonl", b"".join(map(to_line, quarantined)))
    flat = [control, *(report for task in reports for report in task)]
    write_atomic(ctx.out / "leaks.jsonl", b"".join(map(to_line, flat)))
    if not any(task.split == "train" for task in tasks):
        first = quarantined[0].reason if quarantined else "the prepared set has none"
        raise StageFailed(
            f"no training environment is left: {len(quarantined)} quarantined; the first: {first}",
            hint=f"see {ctx.out / 'leaks.jsonl'}",
        )
    _prune(ctx.out, tasks)
    figures = round_figures(
        reports, [row["task"] is None for row in rows], ctx.recipe.probe_hacks.clean_rounds
    )
    for number, figure in enumerate(figures, 1):
        if ctx.resume is None or ctx.resume.state.get("published") is None:
            ctx.log(number, figure)
    ctx.commit(units, {"published": True})
    return _result(tasks, quarantined, control, figures)


def _result(
    tasks: list[Task], quarantined: list[Rejected], control: LeakReport, figures: list[Mapping[str, float]]
) -> StageResult:
    shares = [figure["probe/hackable_share"] for figure in figures]
    said = ", ".join(f"round {number} {share:.1%}" for number, share in enumerate(shares, 1))
    notes = (
        f"{len(tasks)} environments clean, {len(quarantined)} quarantined; hackable: {said}",
        f"planted control: {len(control.controls)} of {len(control.controls)} leaks found and closed",
    )
    headline = {
        "tasks": float(len(tasks)),
        "tasks_quarantined": float(len(quarantined)),
        "hackable_first_round": shares[0] if shares else 0.0,
        "hackable_last_round": shares[-1] if shares else 0.0,
    }
    return StageResult(headline=headline, notes=notes)


def _prune(out: Path, tasks: list[Task]) -> None:
    """Snapshots and private files that no clean task uses do not leave this stage."""
    kept = {
        "snapshots": {task.environment.snapshot for task in tasks},
        "private": {task.private for task in tasks},
    }
    for name, wanted in kept.items():
        for path in (out / name).iterdir() if (out / name).is_dir() else ():
            if path.name not in wanted:
                if path.is_dir():
                    remove_tree(path)
                else:
                    path.unlink()
