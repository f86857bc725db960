"""`mimo run`: the plan under the recipe's lock, its stages in order, and what is kept of it all."""

from __future__ import annotations

import os
import shlex
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from mimo import tracking
from mimo.errors import Interrupted, MachineLacks, MimoError, StoppedSafely
from mimo.pipeline.decide import State
from mimo.pipeline.engines import Engines, StartServer
from mimo.pipeline.observe import Blind, Observer
from mimo.pipeline.plan import Plan
from mimo.pipeline.prepare import leave_out
from mimo.pipeline.processes import become_subreaper
from mimo.pipeline.program import called_as
from mimo.pipeline.project import Project
from mimo.pipeline.provenance import provenance
from mimo.pipeline.report import Outcome, Report
from mimo.pipeline.session import Session
from mimo.pipeline.stages import refusal, refuse_stuck, run_stages, settled
from mimo.pipeline.stopping import StopSignals
from mimo.recipe.environment import redact, references, resolve_env, texts
from mimo.recipe.machine import check_machine
from mimo.run_dir.files import write_atomic
from mimo.run_dir.locks import KernelLock
from mimo.run_dir.runs import RunFolder, RunRecord, RunState, Status, new_run_id
from mimo.run_dir.sweep import sweep_home
from mimo.tracking import NullTracker, Tracker, open_tracker
from mimo.types import Json

_NO_TRACKING = "none"
_MLFLOW: dict[Status, tracking.Status] = {"done": "FINISHED", "failed": "FAILED"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Tools:
    """What a run uses besides files; tests bring their own."""

    observer: Observer = field(default_factory=Blind)
    start_server: StartServer | None = None


def run_recipe(project: Project, tools: Tools) -> Report:
    """Run what the plan says; the report says how it ended (`report.error` carries the exit code).

    Raises:
        RecipeError: a selected stage needs the user's decision, or an input that is not there.
        MachineLacks: this machine cannot run the recipe's profile.
        Busy: the recipe is running already.
    """
    started = time.monotonic()
    project.home.create()
    become_subreaper()
    what = f"recipe {project.resolved.path.name} (profile {project.profile or 'none'})"
    with KernelLock(project.lock, what), StopSignals() as stop:
        reconcile(project)
        plan = project.plan()
        tools.observer.planned(plan)
        refuse_stuck(project, plan.stuck())
        for name in plan.selected:
            if plan.wishes[name].fresh and plan.decisions[name].state is State.CACHED:
                leave_out(project.home, name, plan.decisions[name])
        report = Report(profile=project.profile, resume=project.command())
        if plan.has_work():
            _check_machine(project)
            _run(project, plan, tools, stop, report)
            if report.error is not None:
                made = [item.stage for item in report.outcomes if item.what == "ran"]
                report.resume = project.command(done=made)
        else:
            runs = project.runs()
            report.run = runs[0].run_id if runs else None
            report.outcomes = [settled(decision) for decision in plan.decisions.values()]
            report.error = next(filter(None, map(refusal, _selected(report, plan))), None)
    if report.error is not None and report.error.hint is not None:
        report.error.hint = project.exact(report.error.hint)
    report.seconds = time.monotonic() - started
    return report


def _check_machine(project: Project) -> None:
    """MachineLacks when the profile cannot run here; another one is never taken in its place."""
    try:
        check_machine(project.recipe, project.resolved.profile)
    except MachineLacks as error:
        if project.pinned_by is None:
            raise
        raise MachineLacks(
            error.message,
            hint=f"run {project.pinned_by} was started under this profile and goes on only where that can "
            "run; --profile NAME starts another run here (`mimo doctor` says which profiles can)",
        ) from error


def _selected(report: Report, plan: Plan) -> list[Outcome]:
    return [item for item in report.outcomes if item.stage in plan.selected]


def reconcile(project: Project) -> None:
    """Put right what a kill left: the caller holds the lock, so runs that say `running` were killed."""
    sweep_home(project.home)
    for run in project.runs():
        state = run.state()
        if state is not None and state.status == "running":
            run.update_state(status="killed", ended=time.time(), message="killed from outside")
            run.event(None, "found-killed", {"pid": state.pid})


def _run(project: Project, plan: Plan, tools: Tools, stop: StopSignals, report: Report) -> None:
    run = _run_folder(project)
    report.run = run.run_id
    run.write_plan(plan.as_json())
    tracker = _tracker(project, run, tools, report)
    report.tracking = tracker.location
    engines = Engines(project.recipe, run.folder, tools.start_server)
    session = Session(
        project=project,
        run=run,
        observer=tools.observer,
        tracker=tracker,
        engines=engines,
        stop=stop,
        redact=_redactor(project),
        warnings=report.warnings,
    )
    _begin(session, project, report)
    try:
        run_stages(session, plan, report)
    except MimoError as error:
        report.error = error
    finally:
        engines.close()
        _end(session, report)


def _run_folder(project: Project) -> RunFolder:
    """The newest run of this recipe when it is unfinished and wants the same; else a new one."""
    for run in project.runs()[:1]:
        state, record = run.state(), run.record()
        if (
            record is not None
            and record.result == project.result
            and (state is None or state.status != "done")
        ):
            return run
    record = RunRecord(
        run=new_run_id(project.recipe.name),
        recipe_file=str(project.resolved.path),
        name=project.recipe.name,
        variant=project.recipe.variant,
        profile=project.profile,
        overrides=project.request.overrides,
        created=time.time(),
        result=project.result,
        recipe=project.recipe.data(),
        origins={key: str(origin) for key, origin in project.resolved.origins.items()},
        git={
            "recipe": provenance(project.resolved.path.parent, _redactor(project)),
            "mimo": provenance(Path(__file__).resolve().parent, _redactor(project)),
        },
        command=shlex.join([*called_as(), *sys.argv[1:]]),
    )
    run = RunFolder.create(project.home, record)
    write_atomic(run.folder / "recipe.yaml", project.resolved.resolved_yaml().encode())
    return run


def _tracker(project: Project, run: RunFolder, tools: Tools, report: Report) -> Tracker:
    def warn(line: str) -> None:
        report.warnings.append(line)
        tools.observer.event(run.event(None, "tracking", {"message": line}))

    uri = project.recipe.runtime.tracking_uri
    if uri == _NO_TRACKING:
        return NullTracker()
    settings = project.recipe.tracking
    return open_tracker(
        project.home.root,
        uri=resolve_env(uri) if uri else None,
        uri_written=uri,
        experiment=settings.experiment,
        traces_per_step=settings.traces_per_step,
        artifact_limit_mb=settings.artifact_limit_mb,
        warn=warn,
    )


def _redactor(project: Project) -> Callable[[str], str]:
    """Takes values of the recipe's secrets out of a text; free when it has none."""
    data = project.recipe.data()
    if not any(references(text) for text in texts(data)):
        return lambda text: text
    return lambda text: redact(text, data)


def _begin(session: Session, project: Project, report: Report) -> None:
    state, record = session.run.state(), session.run.record()
    assert record is not None
    starts = 1 + (state.starts if state else 0)
    session.run.write_state(
        RunState(
            status="running",
            pid=os.getpid(),
            host=socket.gethostname(),
            starts=starts,
            started=time.time(),
            used=state.used if state else {},
        )
    )
    session.event(None, "run", {"start": starts, "profile": project.profile, "command": report.resume})
    session.tracker.start_run(_tracker_info(project, record))


def _tracker_info(project: Project, record: RunRecord) -> dict[str, Json]:
    git = record.git["recipe"]
    facts = {key: value for key, value in git.items() if key != "unknown"} if isinstance(git, dict) else {}
    return {
        "run": record.run,
        "recipe": record.name,
        "variant": record.variant,
        "profile": record.profile,
        "command": record.command,
        "params": project.recipe.data(),
        "recipe_text": project.resolved.resolved_yaml(),
        "origins": dict(record.origins),
        **facts,
    }


def _end(session: Session, report: Report) -> None:
    """Whatever the end: state, event and tracker say the same."""
    status, message = _status(report)
    session.event(None, "end", {"status": status, "message": message})
    session.run.update_state(
        status=status, ended=time.time(), message=message, headline=report.headline, stage=None
    )
    session.tracker.end_run(_MLFLOW.get(status, "KILLED"), report.headline)
    session.tracker.close()


def _status(report: Report) -> tuple[Status, str | None]:
    error = report.error
    if error is None:
        crashed = sys.exc_info()[1]
        return ("failed", f"{type(crashed).__name__}: {crashed}") if crashed else ("done", None)
    if isinstance(error, Interrupted):
        return "interrupted", error.message
    return ("stopped" if isinstance(error, StoppedSafely) else "failed"), error.message
