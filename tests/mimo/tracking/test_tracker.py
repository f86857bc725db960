"""What a live run puts into MLflow."""

from __future__ import annotations

import json
import math
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mimo.tracking import Tracker
from tests.mimo.tracking.scene import KEY, RUN, client, end_stage, history, rollout, row, runs, tell_stage

Make = Callable[..., Tracker]


def test_a_run_with_a_stage_appears_with_all_that_was_told(
    home: Path, tracker: Make, said: list[str]
) -> None:
    live = tracker()
    live.start_run(RUN)
    tell_stage(live, range(1, 4))
    end_stage(live, headline={"pass@1": 0.5}, counts={"masked": 2})
    live.reused_stage("prepare-env", "pro-0", "p" * 64, {"tasks": 12})
    live.end_run("FINISHED", {"pass_rate": 0.5})
    assert live.flush(60)
    parent, child, reused = (runs(home)[name] for name in ("pro-1", "rl-mixed", "prepare-env"))
    assert parent.data.params == {"rl_mixed.steps": "3", "rl_mixed.stages": "[1, 2]"}
    assert parent.data.metrics == {"pass_rate": 0.5, "rl-mixed/pass_at_1": 0.5, "prepare-env/tasks": 12}
    tags = parent.data.tags
    assert (tags["mimo.variant"], tags["mimo.profile"], tags["runtime.threads"]) == ("pro", "smoke", "2")
    assert tags["mlflow.source.git.commit"] == "abc123"
    assert "recipes/pro.yaml" in tags["mlflow.note.content"]
    assert child.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert (child.data.tags["mimo.key"], child.data.tags["mimo.attempt"]) == (KEY, "1")
    assert child.data.metrics["count/masked"] == 2
    assert reused.data.tags["mimo.reused_from"] == "pro-0"
    assert {run.info.status for run in (parent, child, reused)} == {"FINISHED"}
    assert history(home, "loss") == [(1, 1.0), (2, 0.5), (3, pytest.approx(1 / 3))]
    assert said == []


def test_recipe_origins_and_diff_are_artifacts_below_the_home(home: Path, tracker: Make) -> None:
    live = tracker()
    live.start_run(RUN)
    assert live.flush(60)
    run = runs(home)["pro-1"]
    assert run.info.artifact_uri.startswith((home / "mlartifacts").as_uri())
    names = {item.path for item in client(home).list_artifacts(run.info.run_id)}
    assert names == {"recipe.yaml", "origins.json", "git.diff"}


def test_the_database_is_write_ahead(home: Path, tracker: Make) -> None:
    live = tracker()
    live.start_run(RUN)
    assert live.flush(60)
    with sqlite3.connect(home / "mlflow.db") as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_every_call_returns_at_once(tracker: Make) -> None:
    live = tracker()
    started = time.monotonic()
    live.start_run(RUN)
    tell_stage(live, range(1, 200))
    assert time.monotonic() - started < 5.0


def test_names_and_values_mlflow_refuses_are_changed_and_flagged(
    home: Path, tracker: Make, said: list[str]
) -> None:
    live = tracker()
    live.start_run(RUN)
    live.start_stage("rl-mixed", {"key": KEY})
    rows = [row(1, **{"pass@1": 0.5, "kl": math.nan, "ratio(max)": math.inf, "ok": 1.0})]
    live.commit("rl-mixed", 1, rows)
    assert live.flush(60)
    metrics = runs(home)["rl-mixed"].data.metrics
    assert metrics == {
        "pass_at_1": 0.5,
        "kl_nonfinite": 1,
        "ratio_max__nonfinite": 1,
        "ok": 1,
        "mimo/committed_step": 1,
    }
    assert said == []


def test_a_step_of_many_metrics_arrives_whole(home: Path, tracker: Make) -> None:
    live = tracker()
    live.start_run(RUN)
    live.start_stage("rl-mixed", {"key": KEY})
    live.commit("rl-mixed", 1, [row(1, **{f"m{number}": number for number in range(2100)})])
    assert live.flush(60)
    assert len(runs(home)["rl-mixed"].data.metrics) == 2101


def test_small_files_are_copied_large_ones_listed_checkpoints_registered(
    home: Path, tracker: Make, tmp_path: Path
) -> None:
    (tmp_path / "small.json").write_text("{}")
    (tmp_path / "large.txt").write_bytes(b"x" * 2000)
    checkpoint = tmp_path / "checkpoints" / "step-000003"
    (checkpoint / "model").mkdir(parents=True)
    (checkpoint / "model" / "config.json").write_text("{}")
    (checkpoint / "checkpoint.json").write_text('{"step": 3}')
    (tmp_path / "rest").mkdir()
    (tmp_path / "rest" / "ids.safetensors").write_bytes(b"12345")
    live = tracker(artifact_limit_mb=0.001)
    live.start_run(RUN)
    tell_stage(live, range(1, 2))
    paths = {name: tmp_path / name for name in ("small.json", "large.txt", "checkpoints", "rest", "gone")}
    end_stage(live, artifacts=paths)
    end_stage(live, artifacts=paths)
    assert live.flush(60)
    api, run_id = client(home), runs(home)["rl-mixed"].info.run_id
    assert {item.path for item in api.list_artifacts(run_id)} == {"small.json", "files.json"}
    listed = json.loads(Path(api.download_artifacts(run_id, "files.json")).read_text())
    assert {one["name"]: (one["size"], one["copied"]) for one in listed} == {
        "small.json": (2, True),
        "large.txt": (2000, False),
        "rest": (5, False),
        "gone": (None, False),
    }
    models = api.search_logged_models([api.get_experiment_by_name("test").experiment_id])
    assert [model.tags["path"] for model in models] == [str(checkpoint)]


def test_sampled_rollouts_become_traces_with_spans_and_feedback(home: Path, tracker: Make) -> None:
    live = tracker(traces_per_step=2)
    live.start_run(RUN)
    tell_stage(live, range(1, 2))
    for number in range(4):
        live.trace("rl-mixed", 1, rollout(number))
    assert live.flush(60)
    api, child = client(home), runs(home)["rl-mixed"]
    found = api.search_traces(locations=[child.info.experiment_id], run_id=child.info.run_id)
    assert sorted(trace.info.tags["mimo.rollout_id"] for trace in found) == ["r-0", "r-1"]
    trace = found[0]
    spans = {span.name: span for span in trace.data.spans}
    assert [span.span_type for span in trace.data.spans] == ["AGENT", "LLM", "TOOL", "LLM"]
    assert spans["turn 2: run"].inputs["calls"][0]["arguments"] == {"command": "pytest"}
    assert spans["turn 2: run"].outputs["exit_code"] == 1
    assert spans["turn 3"].inputs["messages"][0]["content"] == "1 failed"
    assert (spans["turn 1"].end_time_ns - spans["turn 1"].start_time_ns) == 1_500_000_000
    said = {item.name: item for item in trace.info.assessments}
    assert (said["passed"].value, said["solution"].value, said["reward"].value) == (True, 0.75, 0.5)
    assert said["solution"].source.source_type == "LLM_JUDGE"
    assert (said["hack"].value, "git-history" in said["hack"].rationale) == ("suspected", True)
    assert "behavior" not in said, "what was not graded has no feedback"


def test_hostile_text_in_a_rollout_is_cut_and_stored(home: Path, tracker: Make, said: list[str]) -> None:
    live = tracker()
    live.start_run(RUN)
    tell_stage(live, range(1, 2))
    live.trace("rl-mixed", 1, rollout(text="\x1b[2J\0</script>" + "x" * 100_000))
    data = rollout(1)
    data["rollout"]["contexts"][0]["turns"][1]["text"] = "half a pair \ud800"
    live.trace("rl-mixed", 1, data)
    assert live.flush(60)
    api, child = client(home), runs(home)["rl-mixed"]
    found = api.search_traces(locations=[child.info.experiment_id], run_id=child.info.run_id)
    answers = [trace.data.spans[1].outputs["content"] for trace in found]
    assert max(map(len, answers)) <= 20_000
    assert any("cut: 100" in answer for answer in answers)
    assert (len(found), said) == (2, [])
