"""A run as MLflow shows it: one parent, a child a stage, every committed step once, reuse told."""

from __future__ import annotations

import json

import pytest

from tests.mimo.pipeline.conftest import Bench

pytestmark = pytest.mark.slow


def test_a_failed_and_resumed_run_is_one_run_with_each_point_once(bench: Bench) -> None:
    bench.recipe.write_text(bench.recipe.read_text().replace("tracking_uri: none, ", ""))
    args = ("run", str(bench.recipe), "--profile", "smoke", "--json")
    assert bench.call(*args, knobs={"at": "raise", "count": "rollout masked"}).returncode == 1
    assert bench.call("track", "sync").returncode == 0
    assert counted_in_mlflow(bench) == {"count/rollout masked": 1.0}
    report = report_of(bench.call(*args).stdout)
    other = report_of(bench.call(*args, "--set", "audit.confidence=0.9").stdout)
    assert report["tracking"] == f"sqlite:///{bench.home.root}/mlflow.db"
    assert bench.call("track", "sync").returncode == 0  # what a slow machine did not send at the end
    from mlflow import MlflowClient

    client = MlflowClient(report["tracking"])
    (experiment,) = [item for item in client.search_experiments() if item.name == "mimo"]
    found = client.search_runs([experiment.experiment_id])
    runs = {(run.data.tags.get("mimo.run"), run.data.tags.get("mimo.stage")): run for run in found}
    assert len(runs) == len(found) == 8
    parent, child = runs[report["run"], None], runs[report["run"], "rl-mixed"]
    assert parent.info.status == child.info.status == "FINISHED"
    assert child.data.tags["mlflow.parentRunId"] == parent.info.run_id
    points = client.get_metric_history(child.info.run_id, "loss")
    assert [(point.step, point.value) for point in points] == [(1, 1.0), (2, 0.5), (3, 1 / 3), (4, 0.25)]
    assert parent.data.metrics["rl-mixed/pass_rate"] == 0.5
    assert parent.data.params["rl_mixed.group_size"] == "8"
    assert runs[other["run"], "rl-mixed"].data.tags["mimo.reused_from"] == report["run"]


def counted_in_mlflow(bench: Bench) -> dict[str, float]:
    """The counts of the failed stage, as of its last commit."""
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{bench.home.root}/mlflow.db")
    (experiment,) = [item for item in client.search_experiments() if item.name == "mimo"]
    (failed,) = client.search_runs([experiment.experiment_id], "tags.`mimo.stage` = 'rl-mixed'")
    assert failed.info.status == "FAILED"
    return {name: value for name, value in failed.data.metrics.items() if name.startswith("count/")}


def report_of(output: str):  # type: ignore[no-untyped-def]
    row = json.loads(output.splitlines()[-1])
    assert row["event"] == "report"
    assert row["error"] is None
    return row
