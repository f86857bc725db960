"""One start of a run: everything its stages share, and the one way events, metrics and progress go out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from mimo.pipeline.engines import Engines
from mimo.pipeline.observe import Observer
from mimo.pipeline.project import Project
from mimo.pipeline.stopping import StopSignals
from mimo.recipe.models import Recipe
from mimo.run_dir.home import Home
from mimo.run_dir.manifest import ENGINE_FOLDER, Manifest
from mimo.run_dir.runs import RunFolder
from mimo.tracking import MetricRow, Status, Tracker
from mimo.types import Json


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """What the stages of one start share."""

    project: Project
    run: RunFolder
    observer: Observer
    tracker: Tracker
    engines: Engines
    stop: StopSignals
    redact: Callable[[str], str]
    warnings: list[str]
    """What no stage counts and the summary has to say all the same: see `warn`."""

    @property
    def home(self) -> Home:
        """The state folder."""
        return self.project.home

    @property
    def recipe(self) -> Recipe:
        """The checked recipe."""
        return self.project.recipe

    def event(self, stage: str | None, event: str, about: Mapping[str, Json]) -> None:
        """Write an event and show it."""
        self.observer.event(self.run.event(stage, event, about))

    def warn(self, stage: str, event: str, about: Mapping[str, Json], said: str) -> None:
        """An event that the run's summary repeats as `said`."""
        self.warnings.append(f"{stage}: {said}")
        self.event(stage, event, about)

    def committed(self, stage: str, step: int, rows: Sequence[Json], traces: Sequence[Json]) -> None:
        """A stage committed `step`: an event, and its metrics and traces to the tracker."""
        self.event(stage, "commit", {"step": step})
        self.tracker.commit(stage, step, cast("Sequence[MetricRow]", rows))
        for trace in traces:
            if isinstance(trace, dict) and isinstance(trace["data"], dict):
                self.tracker.trace(stage, int(str(trace["step"])), trace["data"])

    def uses(self, stage: str, key: str) -> None:
        """Keep in the run's state which result a stage came to; `mimo gc` keeps it."""
        state = self.run.state()
        if state is not None:
            self.run.write_state(replace(state, used={**state.used, stage: key[:16]}))

    def stage_started(
        self, stage: str, key: str, metrics_file: Path, attempt: int, *, committed: int
    ) -> None:
        """Open the stage at the tracker; it sends what earlier attempts committed from the metrics file."""
        self.tracker.start_stage(
            stage,
            {
                "key": key[:16],
                "attempt": attempt,
                "committed": committed,
                "metrics_file": str(metrics_file),
            },
        )

    def stage_done(self, folder: Path, manifest: Manifest) -> None:
        """Close the stage at the tracker."""
        artifacts = {path.name: path for path in sorted(folder.iterdir()) if path.name != ENGINE_FOLDER}
        self.tracker.end_stage(
            manifest.stage,
            "FINISHED",
            headline=manifest.headline,
            counts={name: float(str(value)) for name, value in manifest.counts.items()},
            artifacts=artifacts,
        )

    def stage_ended(self, stage: str, status: Status, counts: Mapping[str, Json]) -> None:
        """Close a stage that was stopped, killed or failed, with what it had counted at its last commit."""
        numbers = {name: float(str(value)) for name, value in counts.items()}
        self.tracker.end_stage(stage, status, headline={}, counts=numbers, artifacts={})
