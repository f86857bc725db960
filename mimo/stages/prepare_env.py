"""Make the environments: import each task, rebuild its git, scrub, gate with the reference and with nothing.

A task enters the set only if its reference solution passes and an empty change fails, in every rerun, with
the same tests passing each time. Everything else is rejected with its reason (`rejects.jsonl`). What
could not be fetched is no rejection: without it the same key would hold another set, so the stage fails.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal, cast

from mimo.domains import load_domain
from mimo.domains.base import Domain, Rejected, TaskStore
from mimo.errors import FetchFailed, MachineLacks, MimoError, StageFailed, WrongSource
from mimo.recipe.models import Recipe
from mimo.records import from_json, to_json, to_line
from mimo.rollouts.house import OpenBox
from mimo.run_dir.files import read_json, write_atomic
from mimo.stages.base import StageContext, StageResult
from mimo.stages.harness_choice import check_harnesses
from mimo.stages.left_out import making_params, needs_sight
from mimo.stages.params import box_images
from mimo.stages.task_folders import folder_digest
from mimo.stages.tasks import box_opener, spec_opener
from mimo.types import Json, Limits, Task, Verdict
from sandbox.base import Changes
from sandbox.errors import SandboxError, SandboxUnavailable

NOTHING = Changes(files=(), capped=False)
_SHOWN = 3
"""Tests named in the reason of a refused task."""
FETCH_PAUSE_S = 1.0
"""Before a download is tried again; doubled each time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Job:
    """One task to make: its source (plain data), its id, its place in the set."""

    number: int
    task_id: str
    source: dict[str, Json]


class PrepareEnv:
    """Import, rebuild, scrub and verify every environment."""

    name: ClassVar[str] = "prepare-env"
    summary: ClassVar[str] = "Import, rebuild, scrub and verify every environment."
    version: ClassVar[int] = 1
    cost: ClassVar[Literal["light", "heavy"]] = "light"
    reads: ClassVar[tuple[str, ...]] = ()
    built: ClassVar[bool] = True

    def params(self, recipe: Recipe) -> dict[str, Json]:
        """Sources (of the user's task folders also what they hold), limits, gates and their back end."""
        folders = [Path(entry.path) for entry in recipe.tasks.sources if entry.kind == "folder"]
        return {
            "tasks": recipe.tasks.model_dump(mode="json"),
            **({"folders": {str(path): folder_digest(path) for path in folders}} if folders else {}),
            "prepare_env": recipe.prepare_env.model_dump(mode="json"),
            "sandbox": recipe.sandbox.model_dump(mode="json", exclude={"image"}),
            **making_params(recipe),
        }

    def images(self, recipe: Recipe) -> dict[str, Json]:
        """The image boxes are made of, where the recipe names one."""
        return box_images(recipe)

    def horizon(self, recipe: Recipe) -> dict[str, int]:  # noqa: ARG002 - the contract's signature
        """Nothing to continue."""
        return {}

    def run(self, ctx: StageContext) -> StageResult:
        """Make every task not made yet, and again those that an earlier attempt rejected; write the set."""
        check_harnesses(ctx.recipe)
        jobs = _jobs(ctx)
        ctx.plan(len(jobs))
        todo = [job for job in jobs if not _is_made(ctx.out, job)]
        told = {job.task_id for job in todo if _part(ctx.out, job).exists()}
        workshop = _Workshop(ctx)
        done = len(jobs) - len(todo)
        missing: list[FetchFailed] = []
        with _pool(ctx.recipe.runtime.prepare_concurrency) as pool:
            futures = [pool.submit(workshop.make, job) for job in todo]
            for future in as_completed(futures):
                try:
                    row = future.result()
                except FetchFailed as error:
                    missing.append(error)
                    ctx.check_stop()
                    continue
                done += 1
                _note(ctx, row, told, done=done, total=len(jobs))
        if missing:
            raise _not_fetched(ctx, missing, len(jobs))
        if not todo:
            _commit(ctx, done)  # a kill came between the last task and its commit
        return _publish(ctx, jobs)


class _Workshop:
    """Makes tasks; used from several threads."""

    def __init__(self, ctx: StageContext) -> None:
        self.out = ctx.out
        self.scratch = ctx.scratch
        self.cache = ctx.cache
        self.recipe = ctx.recipe
        self.count = ctx.count
        self.should_stop = ctx.should_stop
        self.store = TaskStore(ctx.out)
        self.open_box: OpenBox = box_opener(ctx)

    def make(self, job: _Job) -> dict[str, Json]:
        """The task or its rejection, kept in `gates/` so that a killed stage does not make it again."""
        started = time.monotonic()
        domain = load_domain(str(job.source["domain"]))
        try:
            row = self._gated(domain, job)
        except (MachineLacks, SandboxUnavailable, FetchFailed, WrongSource):
            raise  # no fault of the environment
        except (MimoError, SandboxError) as error:
            row = _rejection(job, f"{type(error).__name__}: {error}")
        row["seconds"] = round(time.monotonic() - started, 3)
        path = _part(self.out, job)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps(row, ensure_ascii=False, indent=1).encode())
        return row

    def _gated(self, domain: Domain, job: _Job) -> dict[str, Json]:
        folder = self._built(domain, job)
        limits = Limits(**self.recipe.tasks.limits.model_dump())
        task = domain.import_folder(
            folder,
            self.store,
            limits=limits,
            history=self.recipe.prepare_env.history,
            cache=self.cache,
            open_spec=spec_opener(self.recipe),
        )
        if self.recipe.sandbox.image is not None:
            task = replace(task, environment=replace(task.environment, image=self.recipe.sandbox.image))
        problem = needs_sight(task, self.recipe) or self._gate(domain, task)
        if problem is not None:
            return _rejection(job, problem)
        return {"task": cast(Json, to_json(task)), "reject": None}

    def _built(self, domain: Domain, job: _Job) -> Path:
        """The task's folder; what cannot be fetched is tried `runtime.fetch_attempts` times."""
        pause = FETCH_PAUSE_S
        for _ in range(self.recipe.runtime.fetch_attempts - 1):
            try:
                return domain.build(job.source, job.task_id, self.scratch / "tasks")
            except FetchFailed as error:
                if self.should_stop():
                    raise
                self.count("download tried again", why=error.message)
                time.sleep(pause)
                pause *= 2
        return domain.build(job.source, job.task_id, self.scratch / "tasks")

    def _gate(self, domain: Domain, task: Task) -> str | None:
        """Why the task is refused, or None: the reference passes and nothing fails, every time alike."""
        reference = domain.reference(task, self.store)
        seen: set[str] = set()
        for rerun in range(self.recipe.prepare_env.reruns):
            good = self._verdict(domain, task, reference)
            if not good.passed or good.tampered:
                return f"rerun {rerun + 1}: the reference solution does not pass: {why_failed(task, good)}"
            idle = self._verdict(domain, task, NOTHING)
            if idle.passed:
                return f"rerun {rerun + 1}: passes without any change"
            seen.add(json.dumps([good.detail.get("tests"), idle.detail.get("tests")], sort_keys=True))
        if len(seen) > 1:
            return f"flaky: the tests that pass differ over {self.recipe.prepare_env.reruns} reruns"
        return None

    def _verdict(self, domain: Domain, task: Task, changes: Changes) -> Verdict:
        return domain.verify(
            task, changes, self.store, lambda snapshot, mounts: self.open_box(task, snapshot, mounts)
        )


def _jobs(ctx: StageContext) -> list[_Job]:
    rows: list[tuple[str, dict[str, Json]]] = []
    for entry in ctx.recipe.tasks.sources:
        source = cast("dict[str, Json]", entry.model_dump(mode="json"))
        domain = load_domain(str(source["domain"]))
        rows += [(task_id, source) for task_id in domain.list_sources(source)]
    jobs = [_Job(number=n, task_id=task_id, source=source) for n, (task_id, source) in enumerate(rows)]
    ids = [job.task_id for job in jobs]
    if len(set(ids)) != len(ids):
        twice = sorted({task_id for task_id in ids if ids.count(task_id) > 1})
        raise StageFailed(f"tasks.sources name the same task twice: {', '.join(twice[:3])}")
    return jobs


def _not_fetched(ctx: StageContext, missing: list[FetchFailed], total: int) -> FetchFailed:
    """The one error for everything that could not be fetched."""
    attempts = ctx.recipe.runtime.fetch_attempts
    tried = "tried once" if attempts == 1 else f"tried {attempts} times"
    told = "; ".join(dict.fromkeys(error.message for error in missing))
    return FetchFailed(
        f"{len(missing)} of {total} tasks cannot be made, what they need cannot be fetched ({tried}; "
        f"runtime.fetch_attempts): {told}; every other task is kept",
        hint="see to it that pip reaches its index, then run the same command again"
        + (f" ({missing[0].hint})" if missing[0].hint else ""),
    )


@contextmanager
def _pool(threads: int) -> Iterator[ThreadPoolExecutor]:
    pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="prepare")
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _part(out: Path, job: _Job) -> Path:
    return out / "gates" / f"{job.number:05d}-{job.task_id}.json"


def _is_made(out: Path, job: _Job) -> bool:
    """Made and kept. A rejection is no end: what was in its way may have been put right since."""
    row = read_json(_part(out, job))
    return row is not None and row.get("task") is not None


def _note(ctx: StageContext, row: dict[str, Json], told: set[str], *, done: int, total: int) -> None:
    reject = cast("dict[str, Json] | None", row["reject"])
    if reject is not None and reject["task_id"] not in told:
        ctx.count("task rejected", why=str(reject["reason"])[:200])
    _commit(ctx, done)
    ctx.progress(done, total, "task")
    ctx.check_stop()


def _commit(ctx: StageContext, done: int) -> None:
    """Commit, unless an earlier attempt got further (some of its rejected tasks are being made again)."""
    if ctx.resume is None or done > ctx.resume.step:
        ctx.commit(done, {})


def _publish(ctx: StageContext, jobs: list[_Job]) -> StageResult:
    rows = [json.loads(_part(ctx.out, job).read_bytes()) for job in jobs]
    tasks = [from_json(Task, row["task"]) for row in rows if row["reject"] is None]
    rejects = [Rejected(**row["reject"]) for row in rows if row["reject"] is not None]
    write_atomic(ctx.out / "tasks.jsonl", b"".join(map(to_line, tasks)))
    write_atomic(ctx.out / "rejects.jsonl", b"".join(map(to_line, rejects)))
    share = len(rejects) / len(rows)
    if share > ctx.recipe.prepare_env.max_rejected_share or not tasks:
        first = rejects[0]
        raise StageFailed(
            f"{len(rejects)} of {len(rows)} tasks rejected, more than prepare_env.max_rejected_share "
            f"({ctx.recipe.prepare_env.max_rejected_share}); the first, {first.task_id}: {first.reason}",
            hint=f"see {ctx.out / 'rejects.jsonl'}",
        )
    counts = {"tasks": len(tasks), "tasks_rejected": len(rejects)}
    heldout = sum(task.split == "heldout" for task in tasks)
    notes = (f"{len(tasks)} tasks ({heldout} held out), {len(rejects)} rejected",)
    return StageResult(headline={k: float(v) for k, v in counts.items()}, notes=notes)


def _rejection(job: _Job, reason: str) -> dict[str, Json]:
    source = f"{job.source['kind']}"
    return {"task": None, "reject": {"task_id": job.task_id, "source": source, "reason": reason}}


def why_failed(task: Task, verdict: Verdict) -> str:
    """In a line: the tests that did not pass, those of the task's lists that never ran said apart."""
    tests = verdict.detail.get("tests")
    if "reason" in verdict.detail or not isinstance(tests, dict):
        return json.dumps(verdict.detail, ensure_ascii=False)[:400]
    named = (*task.verifier.fail_to_pass, *task.verifier.pass_to_pass)
    absent = [name for name in named if name not in tests]
    failed = [name for name in named or tests if name in tests and tests[name] != "passed"]
    said = [f"{name} {tests[name]}" for name in failed[:_SHOWN]]
    if len(failed) > _SHOWN:
        said.append(f"{len(failed) - _SHOWN} more do not pass")
    if absent:
        said.append(f"no test of that name ran: {', '.join(absent[:_SHOWN])} ({len(absent)} of {len(named)})")
    return "; ".join(said) or json.dumps(verdict.detail, ensure_ascii=False)[:400]
