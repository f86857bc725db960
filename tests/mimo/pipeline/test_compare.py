"""Two runs side by side, made by the demo's stages: what differs, what is shared, what is missing."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Sequence
from typing import Any

import pytest

from mimo.errors import RecipeError
from mimo.pipeline.compare import Comparison, compare
from mimo.pipeline.compared_run import ComparedRun, read_run
from mimo.rollouts.rates import pass_rate
from mimo.run_dir.runs import RunFolder, list_runs
from tests.mimo.pipeline.conftest import Bench

pytestmark = pytest.mark.slow


def run(bench: Bench, *sets: str, **selection: object) -> ComparedRun:
    report = bench.run(*sets, **selection)
    assert report.run is not None
    return newest(bench)


def newest(bench: Bench) -> ComparedRun:
    return read_run(bench.home, list_runs(bench.home)[0])


def again(bench: Bench, side: ComparedRun) -> ComparedRun:
    return read_run(bench.home, RunFolder(side.run.folder))


def put_report(side: ComparedRun, heldout: Sequence[bool], *, confidence: float = 0.95) -> None:
    """Give the run's audit a report with a policy that passed so, a rollout a task."""
    rate = pass_rate({str(index): [value] for index, value in enumerate(heldout)}, confidence=confidence)
    told = {
        "rate": rate.mean,
        "low": rate.low,
        "high": rate.high,
        "rollouts": rate.rollouts,
        "tasks": rate.tasks,
    }
    folder = side.stages["audit"].folder
    assert folder is not None
    report = {
        "confidence": confidence,
        "policies": [
            {"name": "rl-mixed", "heldout": told, "train": {"rate": None, "low": None, "high": None}}
        ],
        "time": [{"name": "rollouts", "seconds": 30.0}, {"name": "training", "seconds": 10.0}],
        "gate": {"verdict": "passed"},
    }
    (folder / "report.json").write_text(json.dumps(report))


def put_steps(side: ComparedRun, *rates: float) -> None:
    """Give the run's rl-mixed these pass rates, a step each, of 4 groups of 8."""
    folder = side.stages["rl-mixed"].folder
    assert folder is not None
    rows = [
        {
            "step": step,
            "metrics": {"rollouts/pass_rate_all": rate, "rollouts/total": 32.0, "groups/sampled": 4.0},
        }
        for step, rate in enumerate(rates)
    ]
    (folder / "_run" / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def rows(found: Comparison, part: str, key: str) -> dict[str, dict[str, Any]]:
    return {row[key]: row for row in found.as_json()[part]}  # type: ignore[union-attr,index,call-overload,misc]


def test_what_differs_and_what_is_shared(bench: Bench) -> None:
    a = run(bench)
    b = run(
        bench,
        "rl_mixed.group_size=4",
        "rl_mixed.entropy={low: 1.0, high: 2.0, step: 0.1}",
        "runtime.heartbeat_s=0.4",
    )
    found = compare(a, b)
    assert found.params == [
        {"key": "rl_mixed.group_size", "a": 8, "b": 4},
        {"key": "rl_mixed.entropy", "a": None, "b": {"low": 1.0, "high": 2.0, "step": 0.1}},
    ]
    assert found.runtime == [{"key": "runtime.heartbeat_s", "a": 0.3, "b": 0.4}]
    stages = rows(found, "stages", "stage")
    assert stages["prepare-env"]["shared"] is True
    assert stages["prepare-env"]["a"]["what"] == "ran"
    assert stages["prepare-env"]["b"]["what"] == "reused"
    assert stages["prepare-env"]["b"]["why"] == f"from run {a.run.run_id}"
    assert stages["prepare-env"]["a"]["seconds"] == stages["prepare-env"]["b"]["seconds"] > 0
    assert stages["rl-mixed"]["shared"] is False
    assert stages["mopd2"]["a"]["what"] == "skipped"
    assert rows(found, "counts", "stage")["prepare-env"] == {
        "stage": "prepare-env", "what": "task rejected", "a": 2, "b": 2,
    }  # fmt: skip
    assert rows(found, "metrics", "name")["prepare-env/tasks"]["difference"] == {"value": 0.0}
    assert not [line for line in found.notes if "different" in line]


def test_a_task_source_is_compared_by_place(bench: Bench) -> None:
    a = run(bench)
    source = "{kind: generated, domain: coding, seed: 8, train: 32, heldout: 12, level: 1}"
    b = run(bench, f"tasks.sources=[{source}, {source}]", "rl_mixed.group_size=4")
    found = {str(row["key"]): row for row in compare(a, b).params}
    assert set(found) == {"tasks.sources.0.seed", "tasks.sources.1", "rl_mixed.group_size"}
    assert "a" not in found["tasks.sources.1"]


def test_pass_rates_have_intervals_and_so_has_their_difference(bench: Bench) -> None:
    a, b = run(bench), run(bench, "rl_mixed.group_size=4")
    put_report(a, [True] * 3 + [False] * 9)
    put_report(b, [True] * 9 + [False] * 3)
    put_steps(a, 0.25, 0.5)
    put_steps(b, 0.25, 0.5, 0.75)
    found = compare(again(bench, a), again(bench, b))
    told = rows(found, "metrics", "name")
    rate = told["audit/pass_rate/heldout/rl-mixed"]
    assert (rate["a"]["value"], rate["b"]["value"]) == (0.25, 0.75)
    assert rate["a"]["tasks"] == 12
    assert rate["difference"]["value"] == 0.5
    assert 0.0 < rate["difference"]["low"] < 0.5 < rate["difference"]["high"] < 1.0
    assert "audit/pass_rate/train/rl-mixed" not in told
    last = told["rl-mixed/pass_rate_last_step"]
    assert (last["a"]["value"], last["b"]["value"], last["b"]["effective"]) == (0.5, 0.75, 4)
    assert last["difference"]["low"] < 0.0 < last["difference"]["high"]
    assert rows(found, "time", "name")["rollouts"]["a"] == {"seconds": 30.0, "share": 0.75}
    assert found.as_json()["a"]["gate"] == "passed"  # type: ignore[index,call-overload]


def test_intervals_of_different_confidence_give_no_difference(bench: Bench) -> None:
    a, b = run(bench), run(bench, "rl_mixed.group_size=4")
    put_report(a, [True, False])
    put_report(b, [True, False], confidence=0.8)
    found = compare(again(bench, a), again(bench, b))
    assert "difference" not in rows(found, "metrics", "name")["audit/pass_rate/heldout/rl-mixed"]
    assert any("intervals of different confidence (A 0.95, B 0.8)" in line for line in found.notes)


def test_an_unfinished_run_says_what_is_missing(bench: Bench, knobs) -> None:  # type: ignore[no-untyped-def]
    a = run(bench)
    knobs(at="raise")
    b = run(bench, "rl_mixed.group_size=4")
    found = compare(a, b)
    stages = rows(found, "stages", "stage")
    assert b.status == "failed"
    assert stages["prepare-env"]["shared"] is True
    assert (stages["rl-mixed"]["b"]["what"], stages["rl-mixed"]["b"]["key"]) == ("failed", None)
    assert stages["rl-mixed"]["b"]["why"] == "1 of 4 units"
    assert stages["audit"]["b"]["what"] == "not reached"
    assert "a" in rows(found, "metrics", "name")["rl-mixed/pass_rate"]
    assert "b" not in rows(found, "metrics", "name")["rl-mixed/pass_rate"]
    assert "B: no result of rl-mixed: failed (1 of 4 units)" in found.notes
    assert any(line.startswith("B: no report of the audit") for line in found.notes)


def test_a_killed_run_is_no_running_one(bench: Bench) -> None:
    a = run(bench, until="rl-mixed")
    assert a.stages["audit"].what == "not selected"
    a.run.update_state(status="running", pid=1)
    assert again(bench, a).status == "killed"


def test_a_result_that_was_removed(bench: Bench) -> None:
    a, b = run(bench), run(bench, "rl_mixed.group_size=4")
    folder = b.stages["rl-mixed"].folder
    assert folder is not None
    shutil.rmtree(folder)
    found = compare(a, again(bench, b))
    assert rows(found, "stages", "stage")["rl-mixed"]["b"]["what"] == "removed"
    assert "B: no result of rl-mixed: removed (its result is no longer in the store)" in found.notes


def test_a_changed_code_is_told(bench: Bench) -> None:
    a, b = run(bench), run(bench, "rl_mixed.group_size=4")
    folder = b.stages["rl-mixed"].folder
    assert folder is not None
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["identity"]["code"] = "another"
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert "rl-mixed: made with different code" in compare(a, again(bench, b)).notes


def test_a_run_against_itself_is_refused(bench: Bench) -> None:
    a = run(bench)
    with pytest.raises(RecipeError, match="both are run"):
        compare(a, again(bench, a))


def test_a_damaged_run_is_refused(bench: Bench) -> None:
    a = run(bench)
    (a.run.folder / "run.json").write_text("{")
    with pytest.raises(RecipeError, match=r"run\.json cannot be read"):
        again(bench, a)


def test_mlflows_ids_are_read_from_its_file(bench: Bench) -> None:
    """The ids and the path of the page that compares both; a run without tracking has none."""
    a, b = run(bench), run(bench, "rl_mixed.group_size=4")
    assert compare(a, b).mlflow == {"a": {}, "b": {}, "page": None}
    for side in (a, b):
        data = json.loads((side.run.folder / "run.json").read_text())
        data["recipe"]["runtime"]["tracking_uri"] = None
        (side.run.folder / "run.json").write_text(json.dumps(data))
    place = compare(again(bench, a), again(bench, b)).mlflow["b"]
    assert place["run_id"] is None  # type: ignore[index,call-overload]
    assert b.run.run_id in place["filter"]  # type: ignore[index,call-overload]
    _write_mlflow(bench, {"ida": a.run.run_id, "idb": b.run.run_id})
    found = compare(again(bench, a), again(bench, b)).mlflow
    assert found["a"]["run_id"] == "ida"  # type: ignore[index,call-overload]
    assert found["page"] == '/#/compare-runs?runs=["ida","idb"]&experiments=["1"]'


def _write_mlflow(bench: Bench, ids: dict[str, str]) -> None:
    """The tables of MLflow's schema that are read, with a parent run and a child run each."""
    with sqlite3.connect(bench.home.root / "mlflow.db") as database:
        database.execute("create table runs (run_uuid text, experiment_id integer, lifecycle_stage text)")
        database.execute("create table tags (key text, value text, run_uuid text)")
        for run_uuid, run_id in ids.items():
            for uuid, kind in ((f"{run_uuid}-child", "stage"), (run_uuid, "run")):
                database.execute("insert into runs values (?, 1, 'active')", (uuid,))
                database.execute("insert into tags values ('mimo.run', ?, ?)", (run_id, uuid))
                database.execute("insert into tags values ('mimo.kind', ?, ?)", (kind, uuid))
    database.close()
