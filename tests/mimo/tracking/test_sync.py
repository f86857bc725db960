"""MLflow rebuilt from the files of a run."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from commands.track import track
from mimo.errors import Busy, RecipeError
from mimo.tracking import Tracker
from mimo.tracking.connection import Place
from mimo.tracking.journal import Call, append, read
from mimo.tracking.reconcile import reconcile
from mimo.tracking.sync import sync_run
from tests.mimo.tracking.scene import (
    KEY,
    RUN,
    client,
    end_stage,
    history,
    rollout,
    row,
    runs,
    tell_stage,
    write_rows,
)

Make = Callable[..., Tracker]


def finished_run(home: Path, tracker: Make) -> None:
    """A run whose stage wrote its files as the engine does, all in MLflow."""
    work = home / "store" / "rl-mixed" / "work.work"
    rows = write_rows(work / "metrics.jsonl", [row(step) for step in (1, 2, 3)])
    write_rows(work / "traces.jsonl", [{"step": 2, "data": rollout(5)}])  # type: ignore[list-item]
    live = tracker()
    live.start_run(RUN)
    tell_stage(live, range(1, 4), {"metrics_file": str(rows)})
    live.trace("rl-mixed", 2, rollout(5))
    end_stage(live, headline={"pass_rate": 0.5})
    live.end_run("FINISHED", {"pass_rate": 0.5})
    live.close(60)
    shutil.move(work, home / "store" / "rl-mixed" / KEY[:16] / "_run")


def traces(home: Path) -> int:
    child = runs(home)["rl-mixed"].info
    return len(client(home).search_traces(locations=[child.experiment_id], run_id=child.run_id))


def test_what_mlflow_has_is_not_sent_again(home: Path, tracker: Make) -> None:
    finished_run(home, tracker)
    before = {name: (run.data.metrics, run.info.status) for name, run in runs(home).items()}
    report = sync_run(home, "pro-1")
    assert (report.points, report.traces, report.left_out) == (0, 0, ())
    assert {name: (run.data.metrics, run.info.status) for name, run in runs(home).items()} == before
    assert history(home, "loss") == [(1, 1.0), (2, 0.5), (3, pytest.approx(1 / 3))]
    assert traces(home) == 1


def test_a_lost_database_is_filled_again_from_the_published_output(
    home: Path, tracker: Make, migrated_database: Path
) -> None:
    finished_run(home, tracker)
    before = {name: (run.data.metrics, run.data.params, run.info.status) for name, run in runs(home).items()}
    for extra in home.glob("mlflow.db-*"):
        extra.unlink()
    (home / "lost").mkdir()
    shutil.move(home / "mlflow.db", home / "lost" / "mlflow.db")
    moved = home.with_name("moved")
    shutil.copytree(home, moved)
    shutil.copyfile(migrated_database, moved / "mlflow.db")
    report = sync_run(moved, "pro-1")
    after = {name: (run.data.metrics, run.data.params, run.info.status) for name, run in runs(moved).items()}
    assert after == before
    assert (report.traces, traces(moved)) == (1, 1)
    assert sync_run(moved, "pro-1").points == 0


def test_a_deleted_stage_run_is_restored_and_a_purged_one_made_again(home: Path, tracker: Make) -> None:
    finished_run(home, tracker)
    mlflow_id = runs(home)["rl-mixed"].info.run_id
    client(home).delete_run(mlflow_id)
    report = sync_run(home, "pro-1")
    assert (report.points, report.restored) == (0, ("rl-mixed",))
    assert len(history(home, "loss")) == 3
    client(home).delete_run(mlflow_id)
    client(home)._tracking_client.store._hard_delete_run(mlflow_id)
    assert sync_run(home, "pro-1").points == 3 * 2 + 1
    assert history(home, "pass_rate") == [(0, 0.5)]
    assert (len(history(home, "loss")), traces(home)) == (3, 1)


def test_a_live_run_is_left_to_its_own_process(home: Path, tracker: Make) -> None:
    live = tracker()
    live.start_run(RUN)
    with pytest.raises(Busy, match="sends to MLflow itself"):
        sync_run(home, "pro-1")


def test_an_unknown_run_lists_the_known_ones(home: Path, tracker: Make) -> None:
    finished_run(home, tracker)
    with pytest.raises(RecipeError) as caught:
        sync_run(home, "pro-2")
    assert caught.value.hint == "tracked runs: pro-1"


def test_the_command_syncs_a_run_and_all_runs_of_a_recipe(
    home: Path, tracker: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished_run(home, tracker)
    monkeypatch.setenv("MIMO_HOME", str(home))
    for what in ([], ["pro-1"], ["recipes/pro.yaml"]):
        result = CliRunner().invoke(track, ["sync", *what])
        assert result.output == f"pro-1: 0 points and 0 traces sent to sqlite:///{home}/mlflow.db\n"
    assert CliRunner().invoke(track, ["sync", "recipes/flash.yaml"]).output == f"no tracked runs in {home}\n"
    printed = CliRunner().invoke(track, ["sync", "--json", "pro-1"]).output
    assert '"run": "pro-1"' in printed


def test_runs_whose_process_is_dead_become_killed_and_live_ones_stay(home: Path, tracker: Make) -> None:
    live = tracker()
    live.start_run(RUN)
    tell_stage(live, range(1, 2))
    assert live.flush(60)
    code = "from mimo.tracking.owner import this_process; print(this_process())"
    dead = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    child = runs(home)["rl-mixed"].info
    client(home).set_tag(child.run_id, "mimo.owner", dead.strip())
    place = Place(home=home, uri=None, experiment="test")
    assert reconcile(place) == ["pro-1"]
    assert {name: run.info.status for name, run in runs(home).items()} == {
        "pro-1": "RUNNING",
        "rl-mixed": "KILLED",
    }
    client(home).set_tag(child.run_id, "mimo.host", "another-machine")
    client(home).update_run(child.run_id, status="RUNNING")
    assert reconcile(place) == []


def test_a_journal_torn_by_a_kill_keeps_every_whole_line(tmp_path: Path) -> None:
    append(tmp_path, Call(ts=1.0, name="start_run", arguments={"info": {"run": "a"}}))
    with open(tmp_path / "tracking.jsonl", "ab") as file:
        file.write(b'{"ts": 2.0, "call": "com')
    append(tmp_path, Call(ts=3.0, name="end_run", arguments={"status": "FINISHED"}))
    assert [call.name for call in read(tmp_path)] == ["start_run", "end_run"]


def test_commits_in_a_row_are_read_as_one_unless_they_carry_rows(tmp_path: Path) -> None:
    for step in (1, 2):
        append(tmp_path, Call(ts=step, name="commit", arguments={"stage": "a", "step": step}))
    for step in (3, 4):
        append(tmp_path, Call(ts=step, name="commit", arguments={"stage": "a", "step": step, "rows": []}))
    append(tmp_path, Call(ts=5, name="commit", arguments={"stage": "b", "step": 1}))
    assert [call.arguments["step"] for call in read(tmp_path)] == [2, 3, 4, 1]
