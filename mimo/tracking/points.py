"""Metric points in MLflow, where a point can be neither changed nor removed: so none is ever sent twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mimo.tracking.base import MetricRow
from mimo.tracking.names import finite_metrics

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric

MARKER = "mimo/committed_step"
"""Sent last in the batch of each step: a step that has it is complete in MLflow."""
_BATCH = 900
"""Points in one `log_batch`; MLflow takes 1000."""


def steps_sent(client: MlflowClient, mlflow_id: str) -> set[int]:
    """The steps that MLflow has in full."""
    return {point.step for point in client.get_metric_history(mlflow_id, MARKER)}


def send_rows(client: MlflowClient, mlflow_id: str, rows: Sequence[MetricRow], sent: set[int]) -> int:
    """Send `rows` step by step and add their steps to `sent`; the number of points sent.

    Several rows of one step make one set of points, the last value of a name counts. The timestamp is the
    row's, so a batch that is repeated after an unknown outcome is the same set of points to MLflow.
    """
    count = 0
    batch: list[Metric] = []
    steps: list[int] = []
    for step, values in _by_step(rows).items():
        if len(batch) + len(values) > _BATCH:
            count += _flush(client, mlflow_id, batch)
            sent.update(steps)
            batch, steps = [], []
        batch.extend(values)
        steps.append(step)
    count += _flush(client, mlflow_id, batch)
    sent.update(steps)
    return count


def send_latest(client: MlflowClient, mlflow_id: str, metrics: Mapping[str, float], ts: float) -> int:
    """Send each value whose latest point differs, at the step after that point; the number of points sent."""
    from mlflow.entities import Metric

    known = client.get_run(mlflow_id).data.metrics
    batch = []
    for name, value in finite_metrics(metrics).items():
        if known.get(name) != value:
            points = client.get_metric_history(mlflow_id, name) if name in known else []
            step = max((point.step for point in points), default=-1) + 1
            batch.append(Metric(name, value, int(ts * 1000), step))
    return _flush(client, mlflow_id, batch)


def _by_step(rows: Sequence[MetricRow]) -> dict[int, list[Metric]]:
    from mlflow.entities import Metric

    merged: dict[int, dict[str, tuple[float, float]]] = {}
    for row in rows:
        values = merged.setdefault(row["step"], {})
        for name, value in finite_metrics(row["metrics"]).items():
            values[name] = (value, row["ts"])
    steps: dict[int, list[Metric]] = {}
    for step, values in sorted(merged.items()):
        latest = max((ts for _, ts in values.values()), default=0.0)
        marker = Metric(MARKER, float(step), int(latest * 1000), step)
        steps[step] = [Metric(name, value, int(ts * 1000), step) for name, (value, ts) in values.items()]
        steps[step].append(marker)
    return steps


def _flush(client: MlflowClient, mlflow_id: str, batch: Sequence[Metric]) -> int:
    for start in range(0, len(batch), _BATCH):
        client.log_batch(mlflow_id, metrics=batch[start : start + _BATCH])
    return len(batch)
