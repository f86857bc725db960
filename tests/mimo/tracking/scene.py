"""A small run to tell a tracker, and a look at what MLflow then has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Run

from mimo.records import to_json
from mimo.tracking import MetricRow, Tracker
from mimo.types import (
    Context,
    Grades,
    HackFinding,
    HackVerdict,
    Rollout,
    RolloutStatus,
    ToolCall,
    ToolResult,
    Turn,
    Verdict,
)

KEY = "k" * 64
RUN = {
    "run": "pro-1",
    "recipe": "recipes/pro.yaml",
    "variant": "pro",
    "profile": "smoke",
    "commit": "abc123",
    "dirty": True,
    "params": {"rl_mixed": {"steps": 3, "stages": [1, 2]}, "runtime": {"threads": 2}},
    "recipe_text": "name: pro\n",
    "origins": {"name": "recipes/pro.yaml:1"},
    "diff": "+changed",
}


def row(step: int, **metrics: float) -> MetricRow:
    return {"step": step, "ts": 1_700_000_000.0 + step, "metrics": metrics or {"loss": 1.0 / step}}


def rollout(number: int = 0, text: str = "I run the tests", **changes: Any) -> dict[str, Any]:
    turns = (
        Turn(role="user", text="fix the bug", span=(0, 4)),
        Turn(
            role="assistant",
            text=text,
            span=(4, 9),
            tool_calls=(ToolCall(name="run", arguments={"command": "pytest"}),),
            finish_reason="stop",
            weight_version=3,
            seconds=1.5,
        ),
        Turn(
            role="tool", text="1 failed", span=(9, 12), tool_result=ToolResult(exit_code=1, truncated=False)
        ),
        Turn(role="assistant", text="done", span=(12, 14), seconds=0.5),
    )
    facts: dict[str, Any] = {
        "rollout_id": f"r-{number}",
        "group_id": "g-1",
        "task_id": "t-1",
        "domain": "coding",
        "harness": "edit-lines",
        "policy": "step-2",
        "step": 1,
        "seed": 7,
        "status": RolloutStatus.DONE,
        "contexts": (Context(context_id="c0", parent=None, turns=turns),),
        "verdict": Verdict(passed=True, tampered=False),
        "grades": Grades(solution=0.75, grader="llm:rubric", evidence=("the edit is minimal",)),
        "hack": HackFinding(verdict=HackVerdict.SUSPECTED, routes=("git-history",), evidence=("git log",)),
        "reward": 0.5,
    }
    return {"rollout": to_json(Rollout(**{**facts, **changes}))}


def write_rows(path: Path, rows: list[MetricRow]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    return path


def client(home: Path) -> MlflowClient:
    return MlflowClient(tracking_uri=f"sqlite:///{home / 'mlflow.db'}")


def runs(home: Path, experiment: str = "test") -> dict[str, Run]:
    """Active runs by name: `pro-1` the parent, stages by their name; two of one name fail the test."""
    api = client(home)
    found = api.get_experiment_by_name(experiment)
    listed = api.search_runs([found.experiment_id]) if found else []
    named = {run.info.run_name: run for run in listed}
    assert len(named) == len(listed), "a run is there twice"
    return named


def history(home: Path, name: str, stage: str = "rl-mixed") -> list[tuple[int, float]]:
    """All points of a metric, doubles included."""
    points = client(home).get_metric_history(runs(home)[stage].info.run_id, name)
    return sorted((point.step, point.value) for point in points)


def tell_stage(tracker: Tracker, steps: range, info: Mapping[str, Any] | None = None) -> None:
    tracker.start_stage("rl-mixed", {"key": KEY, "attempt": 1, **(info or {})})
    for step in steps:
        tracker.commit("rl-mixed", step, [row(step)])


def end_stage(tracker: Tracker, status: Any = "FINISHED", **parts: Any) -> None:
    empty: dict[str, Any] = {"headline": {}, "counts": {}, "artifacts": {}}
    tracker.end_stage("rl-mixed", status, **{**empty, **parts})
