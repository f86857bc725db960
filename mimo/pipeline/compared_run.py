"""One run as its files say: its stages, their results, the audit's report; nothing is checked or changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from mimo.errors import RecipeError
from mimo.pipeline.project import lock_path
from mimo.run_dir import manifest as manifests
from mimo.run_dir.attempt import Work
from mimo.run_dir.files import read_json, read_lines
from mimo.run_dir.home import Home
from mimo.run_dir.locks import holder
from mimo.run_dir.manifest import Manifest
from mimo.run_dir.runs import RunFolder, RunRecord, RunState
from mimo.tracking.connection import without_password
from mimo.types import Event, Json

_DONE = ("ran", "reused")
_ENDS = {"stopped": "stopped", "failed": "failed"}


@dataclass(frozen=True, kw_only=True, slots=True)
class StageFacts:
    """A stage of a run.

    `what` is `ran`, `reused`, `removed` (its result is no longer in the store), `skipped`, `not selected`,
    `not reached`, `running`, `unfinished`, `stopped` or `failed`. `manifest` and `folder` are those of the
    result, None without one; `seconds` is what making it took, in whichever run, or took so far. `partial`
    is where an unfinished stage's output grows.
    """

    stage: str
    what: str
    why: str = ""
    key: str | None = None
    seconds: float | None = None
    manifest: Manifest | None = None
    folder: Path | None = None
    partial: Path | None = None

    @property
    def done(self) -> bool:
        """True when the run has the stage's result and it is in the store."""
        return self.what in _DONE


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedRun:
    """A run's record and state, its stages in their order, and the audit's report (None: no audit yet)."""

    home: Home
    run: RunFolder
    record: RunRecord
    state: RunState | None
    status: str
    stages: Mapping[str, StageFacts]
    report: Mapping[str, Json] | None

    @property
    def missing(self) -> list[str]:
        """What a whole comparison would need of this run and does not find, a line each."""
        lacks = [
            f"no result of {item.stage}: {item.what}" + (f" ({item.why})" if item.why else "")
            for item in self.stages.values()
            if not item.done
        ]
        if self.report is None:
            lacks.append("no report of the audit, so no pass rates per policy and no time shares")
        return lacks

    def metrics(self, stage: str) -> list[Mapping[str, Json]]:
        """The committed metric rows of a stage's result, oldest first; empty without a result."""
        folder = self.stages[stage].folder if stage in self.stages else None
        rows = read_lines(folder / manifests.ENGINE_FOLDER / "metrics.jsonl") if folder else []
        return [cast("Mapping[str, Json]", row["metrics"]) for row in rows if "metrics" in row]


def read_run(home: Home, run: RunFolder) -> ComparedRun:
    """The run as it is now.

    Raises:
        RecipeError: its `run.json` cannot be read.
    """
    record, state = run.record(), run.state()
    if record is None:
        raise RecipeError(
            f"run {run.run_id}: {run.folder / 'run.json'} cannot be read",
            hint="a run of another version, or a damaged file; `mimo runs ls` lists those that can be",
        )
    alive = _alive(home, record, state)
    status = state.status if state else "new"
    stages = {item.stage: item for item in _stages(home, run, record, state, alive=alive)}
    audit = stages["audit"].folder if "audit" in stages else None
    return ComparedRun(
        home=home,
        run=run,
        record=record,
        state=state,
        status="killed" if status == "running" and not alive else status,
        stages=stages,
        report=read_json(audit / "report.json") if audit else None,
    )


def mlflow_place(side: ComparedRun) -> dict[str, Json]:
    """Where MLflow shows the run: {uri, experiment, experiment_id, run_id, filter}.

    The ids are looked up in the home's own sqlite file and are None for a server, or without MLflow's copy;
    the filter finds the run in any of them. Empty for a run without tracking.
    """
    runtime, settings = side.record.recipe.get("runtime"), side.record.recipe.get("tracking")
    uri = runtime.get("tracking_uri") if isinstance(runtime, dict) else None
    if uri == "none":
        return {}
    file = side.home.root / "mlflow.db"
    ids = _ids(file, side.run.run_id) if uri is None else None
    return {
        "uri": without_password(str(uri)) if uri else f"sqlite:///{file}",
        "experiment": settings.get("experiment") if isinstance(settings, dict) else None,
        "experiment_id": ids[1] if ids else None,
        "run_id": ids[0] if ids else None,
        "filter": f"tags.`mimo.run` = '{side.run.run_id}' and tags.`mimo.kind` = 'run'",
    }


def _ids(file: Path, run_id: str) -> tuple[str, str] | None:
    """MLflow's run id and experiment id of the parent run; None when the file has none or cannot be read."""
    query = (
        "select runs.run_uuid, runs.experiment_id from runs "
        "join tags a on a.run_uuid = runs.run_uuid and a.key = 'mimo.run' and a.value = ? "
        "join tags b on b.run_uuid = runs.run_uuid and b.key = 'mimo.kind' and b.value = 'run' "
        "where runs.lifecycle_stage = 'active'"
    )
    try:
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=0.2)) as database:
            row = database.execute(query, (run_id,)).fetchone()
    except sqlite3.Error:
        return None
    return (str(row[0]), str(row[1])) if row else None


def _alive(home: Home, record: RunRecord, state: RunState | None) -> bool:
    if state is None or state.status != "running":
        return False
    held = holder(lock_path(home, Path(record.recipe_file), record.profile))
    return held is not None and held["pid"] == state.pid


def _stages(
    home: Home, run: RunFolder, record: RunRecord, state: RunState | None, *, alive: bool
) -> Iterator[StageFacts]:
    last: dict[str, Event] = {}
    heard: dict[str, float] = {}
    for event in run.events():
        heard[event.stage or ""] = event.ts
        if event.stage and event.event in ("skipped", "reused", "start", "done", *_ENDS):
            last[event.stage] = event
    plan = _plan(run)
    used = state.used if state else {}
    for stage in dict.fromkeys([*_named(record), *plan]):
        end = last.get(stage)
        if stage in used and (end is None or end.event in ("reused", "done")):
            yield _result(home, run, stage, used[stage])
        elif end is None:
            left = plan.get(stage, {}).get("selected") is False
            yield StageFacts(stage=stage, what="not selected" if left else "not reached")
        elif end.event == "skipped":
            yield StageFacts(stage=stage, what="skipped", why=str(end.about.get("reason", "")))
        else:
            since = heard[stage] - end.ts if end.event == "start" else 0.0
            yield _unfinished(home, run, end, alive=alive, since=since)


def _named(record: RunRecord) -> list[str]:
    names = record.recipe.get("stages")
    return [str(name) for name in names] if isinstance(names, list) else []


def _plan(run: RunFolder) -> dict[str, Mapping[str, Json]]:
    rows = (run.plan() or {}).get("stages")
    found = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return {str(row["stage"]): row for row in found}


def _result(home: Home, run: RunFolder, stage: str, key: str) -> StageFacts:
    folder = home.output(stage, key)
    manifest = manifests.read(folder)
    if manifest is None:
        return StageFacts(stage=stage, what="removed", why="its result is no longer in the store", key=key)
    ran = manifest.run == run.run_id
    return StageFacts(
        stage=stage,
        what="ran" if ran else "reused",
        why="" if ran else f"from run {manifest.run}",
        key=key,
        seconds=manifest.wall_s,
        manifest=manifest,
        folder=folder,
    )


def _unfinished(home: Home, run: RunFolder, end: Event, *, alive: bool, since: float) -> StageFacts:
    """A stage that began; `since` is how long its latest attempt was heard of, where it did not say so."""
    stage = str(end.stage)
    what = _ENDS.get(end.event) or ("running" if alive else "unfinished")
    work = _work(home, run, stage)
    if work is None:
        return StageFacts(stage=stage, what=what, why=str(end.about.get("message") or ""))
    committed, attempt = work.committed(), work.attempt()
    done = f"{committed.step} of {committed.planned} units" if committed else "nothing committed"
    seconds = since + (attempt.seconds if attempt else 0.0)
    return StageFacts(stage=stage, what=what, why=done, seconds=seconds, partial=work.out)


def _work(home: Home, run: RunFolder, stage: str) -> Work | None:
    """The unfinished work of this run."""
    for folder in sorted(home.outputs(stage).glob("*.work")):
        attempt = Work(folder).attempt()
        if attempt is not None and run.run_id in attempt.runs:
            return Work(folder)
    return None
