"""MLflow rebuilt for one run from its files: the journal has the calls, `metrics.jsonl` the curves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from mimo.errors import Busy, MimoError, RecipeError
from mimo.tracking import journal
from mimo.tracking.connection import ExperimentDeleted, Place
from mimo.tracking.environment import prepare_environment
from mimo.tracking.journal import Call
from mimo.tracking.mirror import Mirror
from mimo.tracking.owner import alive
from mimo.tracking.reconcile import mark_dead
from mimo.tracking.trouble import diagnose
from mimo.types import Json


@dataclass(frozen=True, kw_only=True, slots=True)
class SyncReport:
    """What one `sync_run` did; nothing sent means MLflow had it all."""

    run: str
    location: str
    points: int
    traces: int
    left_out: tuple[str, ...]
    """Calls MLflow refuses for what they say, with its reason."""
    restored: tuple[str, ...] = ()
    """Runs that were deleted in MLflow and came back with all they had."""


def tracked_runs(home: Path) -> list[str]:
    """The ids of runs that have a journal, oldest first."""
    files = sorted(home.glob(f"runs/*/{journal.CALLS}"), key=lambda file: file.stat().st_mtime)
    return [file.parent.name for file in files]


def run_info(home: Path, run: str) -> dict[str, Json]:
    """What the latest `start_run` of a run said; empty where it was never tracked."""
    told = [call.arguments["info"] for call in journal.read(home / "runs" / run) if call.name == "start_run"]
    return cast("dict[str, Json]", told[-1]) if told else {}


def sync_run(home: Path, run: str, resolve: Callable[[str], str] = str) -> SyncReport:
    """Bring MLflow up to date with the files of `run`; doing it again sends nothing.

    Args:
        resolve: makes a tracking URI of the one that is kept in the files (`${env:NAME}`).

    Raises:
        RecipeError: no such run, or it was never tracked.
        Busy: its process is alive and mirrors it itself.
        MimoError: MLflow cannot be reached, is locked, or its experiment was deleted.
    """
    calls = list(journal.read(home / "runs" / run))
    starts = [index for index, call in enumerate(calls) if call.name == "start_run"]
    if not starts:
        raise RecipeError(
            f"run {run!r} has no {journal.CALLS} in {home / 'runs' / run}",
            hint=f"tracked runs: {', '.join(tracked_runs(home)) or 'none'}",
        )
    info = cast("dict[str, Json]", calls[starts[-1]].arguments["info"])
    ended = any(call.name == "end_run" for call in calls[starts[-1] :])
    if not ended and alive(str(info.get("owner"))):
        raise Busy(f"run {run!r} is running and sends to MLflow itself", hint="sync it when it has ended")
    prepare_environment()
    return _replay(run, _mirror(home, info, resolve), calls)


def _mirror(home: Path, info: dict[str, Json], resolve: Callable[[str], str]) -> Mirror:
    settings = cast("dict[str, Json]", info["tracking"])
    uri = settings["uri"]
    place = Place(
        home=home.absolute(),
        uri=None if uri is None else resolve(str(uri)),
        written=None if uri is None else str(uri),
        experiment=str(settings["experiment"]),
    )
    return Mirror(
        place,
        traces_per_step=int(cast(int, settings["traces_per_step"])),
        artifact_limit_bytes=int(cast(int, settings["artifact_limit_bytes"])),
    )


def _replay(run: str, mirror: Mirror, calls: Sequence[Call]) -> SyncReport:
    left_out = []
    location = mirror.place.shown
    for call in calls:
        try:
            mirror.apply(call)
        except ExperimentDeleted:
            raise
        except Exception as error:
            trouble = diagnose(error, location)
            if trouble.passing:
                raise MimoError(
                    f"MLflow at {location}: {trouble.message}",
                    hint="the files of the run are complete; sync again when MLflow answers",
                ) from error
            left_out.append(f"{call.name}: {trouble.message}")
    mark_dead(mirror.client)
    return SyncReport(
        run=run,
        location=location,
        points=mirror.points_sent,
        traces=mirror.traces_sent,
        left_out=tuple(left_out),
        restored=tuple(mirror.restored),
    )
