"""Runs that MLflow believes alive although their process is gone (SIGKILL, power cut)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mimo.tracking.connection import Place, connect
from mimo.tracking.owner import alive, host

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run


def reconcile(place: Place) -> list[str]:
    """Mark dead runs of this machine KILLED; the mimo run ids of those changed. Raises what MLflow raises."""
    return mark_dead(connect(place).client)


def mark_dead(client: MlflowClient) -> list[str]:
    """As `reconcile`, over all experiments of an open store."""
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    running: list[Run] = []
    token: str | None = None
    while experiments:
        page = client.search_runs(
            experiments,
            f"tags.`mimo.host` = '{host()}' and attributes.status = 'RUNNING'",
            max_results=200,
            page_token=token,
        )
        running.extend(page)
        token = page.token
        if not token:
            break
    dead = [run for run in running if not alive(run.data.tags.get("mimo.owner", ""))]
    for run in dead:
        client.set_terminated(run.info.run_id, "KILLED")
    return sorted({run.data.tags.get("mimo.run", run.info.run_id) for run in dead})
