"""The MLflow mirror of runs: files are the truth, MLflow can be rebuilt from them (`mimo track sync`)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from mimo.tracking.base import Info, MetricRow, NullTracker, Status, Tracker
from mimo.tracking.connection import Place
from mimo.tracking.environment import clean_environment, prepare_environment
from mimo.tracking.mirror import Mirror
from mimo.tracking.thread import MlflowTracker

__all__ = [
    "Info",
    "MetricRow",
    "NullTracker",
    "Status",
    "Tracker",
    "clean_environment",
    "open_tracker",
]


def open_tracker(
    home: Path,
    *,
    uri: str | None,
    experiment: str,
    traces_per_step: int = 16,
    artifact_limit_mb: float = 64,
    uri_written: str | None = None,
    warn: Callable[[str], None] | None = None,
) -> Tracker:
    """A tracker for one run; opens nothing yet: MLflow is imported in its thread at the first call.

    Args:
        home: MIMO_HOME; `runs/RUN/` below it gets the journal.
        uri: an MLflow tracking URI; None = sqlite at `home/mlflow.db`, artifacts in `home/mlartifacts`.
        uri_written: `uri` as the recipe has it, `${env:NAME}` unresolved: this is what is kept in files.
        warn: gets one line per kind of trouble, from another thread; None = the log.
    """
    prepare_environment()
    mirror = Mirror(
        Place(home=home.absolute(), uri=uri, experiment=experiment, written=uri_written),
        traces_per_step=traces_per_step,
        artifact_limit_bytes=int(artifact_limit_mb * 2**20),
    )
    return MlflowTracker(mirror, warn or logging.getLogger(__name__).warning)
