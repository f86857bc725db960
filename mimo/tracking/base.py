"""The contract between the pipeline and the MLflow mirror: every call returns at once and never raises.

The pipeline (one orchestrator process) calls these methods; a stage's subprocess never does. What the tracker
was told is kept in `runs/RUN/tracking.jsonl`, metrics stay in the stage's `metrics.jsonl`, so that
`mimo track sync RUN` can rebuild MLflow from files alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol, TypedDict

from mimo.types import Json

Status = Literal["FINISHED", "FAILED", "KILLED"]
Info = Mapping[str, Json]


class MetricRow(TypedDict):
    """One line of `metrics.jsonl`; `ts` in seconds since 1970 makes a repeated send the same point."""

    step: int
    ts: float
    metrics: Mapping[str, float]


class Tracker(Protocol):
    """A mirror of runs. `start_run` comes first, then stages by name, `end_run`, `close`."""

    @property
    def location(self) -> str:
        """The tracking URI without a password, for the run's summary."""
        ...

    def start_run(self, info: Info) -> None:
        """Open (or open again) the parent run.

        Args:
            info: `run` (id, required), `recipe`, `variant`, `profile`, `command` (text), `commit`, `branch`,
                `dirty`, `params` (nested; flattened here), `recipe_text`, `origins`, `diff`, `note`;
                any other text, number or bool becomes a tag `mimo.KEY`.
        """
        ...

    def start_stage(self, stage: str, info: Info) -> None:
        """Open (or open again) the child run of `stage`.

        Args:
            info: `key` (required), `attempt`, `committed` (the step a resume starts from), `metrics_file`
                (absolute path of `metrics.jsonl`; committed rows MLflow lacks are sent from it, traces from
                `traces.jsonl` beside it, and from `_run/` of the output once that is published);
                any other text, number or bool becomes a tag `mimo.KEY`.
        """
        ...

    def commit(self, stage: str, step: int, rows: Sequence[MetricRow]) -> None:
        """The metric rows of the steps up to `step`, now durable; steps already sent are left out."""
        ...

    def reused_stage(self, stage: str, origin_run: str, key: str, metrics: Mapping[str, float]) -> None:
        """A stage whose published output of `origin_run` was taken as it is; `metrics` are its headline."""
        ...

    def trace(self, stage: str, step: int, data: Info) -> None:
        """A sampled rollout: `{"rollout": <types.Rollout as JSON>, ...}`; other entries become tags."""
        ...

    def end_stage(
        self,
        stage: str,
        status: Status,
        *,
        headline: Mapping[str, float],
        counts: Mapping[str, float],
        artifacts: Mapping[str, Path],
    ) -> None:
        """Close the child run.

        Args:
            headline: also copied to the parent as `STAGE/NAME`.
            counts: what must not pass silently (masked, dropped, ...); metrics `count/NAME`.
            artifacts: name -> file or folder. A folder with a `checkpoint.json` becomes an external model
                (no copy); others are copied up to the size limit, the rest is listed with size and sha256.
        """
        ...

    def end_run(self, status: Status, headline: Mapping[str, float]) -> None:
        """Close the parent run."""
        ...

    def flush(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds; True if everything told so far is in MLflow."""
        ...

    def close(self, timeout: float = 10.0) -> None:
        """Send what is left for at most `timeout` seconds, say what was not sent, end the thread."""
        ...


class NullTracker:
    """A tracker that forgets everything: for `--dry-run` and for tests."""

    location = ""

    def start_run(self, info: Info) -> None:
        """Nothing."""

    def start_stage(self, stage: str, info: Info) -> None:
        """Nothing."""

    def commit(self, stage: str, step: int, rows: Sequence[MetricRow]) -> None:
        """Nothing."""

    def reused_stage(self, stage: str, origin_run: str, key: str, metrics: Mapping[str, float]) -> None:
        """Nothing."""

    def trace(self, stage: str, step: int, data: Info) -> None:
        """Nothing."""

    def end_stage(
        self,
        stage: str,
        status: Status,
        *,
        headline: Mapping[str, float],
        counts: Mapping[str, float],
        artifacts: Mapping[str, Path],
    ) -> None:
        """Nothing."""

    def end_run(self, status: Status, headline: Mapping[str, float]) -> None:
        """Nothing."""

    def flush(self, timeout: float) -> bool:  # noqa: ARG002 - the protocol names it
        """True."""
        return True

    def close(self, timeout: float = 10.0) -> None:
        """Nothing."""
