"""Trouble with MLflow never stops or slows a run; it is said once, and healed from the files."""

from __future__ import annotations

import socket
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mimo.errors import MimoError
from mimo.tracking import Tracker
from mimo.tracking.sync import sync_run
from tests.mimo.tracking.scene import KEY, RUN, client, end_stage, history, row, runs, tell_stage, write_rows

Make = Callable[..., Tracker]


def test_a_resumed_stage_goes_on_in_its_run_and_doubles_no_point(home: Path, tracker: Make) -> None:
    first = tracker()
    first.start_run(RUN)
    tell_stage(first, range(1, 4))
    end_stage(first, "KILLED")
    first.end_run("KILLED", {})
    first.close(60)
    second = tracker()
    second.start_run({**RUN, "params": {"rl_mixed": {"steps": 9}}})
    tell_stage(second, range(0), {"attempt": 2, "committed": 3})
    for step in (3, 4, 5):
        second.commit("rl-mixed", step, [{**row(step), "ts": 1_800_000_000.0 + step}])
    assert second.flush(60)
    assert [step for step, _ in history(home, "loss")] == [1, 2, 3, 4, 5]
    parent, child = runs(home)["pro-1"], runs(home)["rl-mixed"]
    assert (parent.info.status, child.info.status) == ("RUNNING", "RUNNING")
    assert child.data.tags["mimo.attempt"] == "2"
    assert parent.data.params["rl_mixed.steps"] == "3"
    assert parent.data.tags["mimo.changed.rl_mixed.steps"] == "9"
    end_stage(second)
    second.end_run("FINISHED", {})
    assert second.flush(60)
    assert {run.info.status for run in runs(home).values()} == {"FINISHED"}


def test_rows_a_killed_run_did_not_send_are_sent_at_the_resume(home: Path, tracker: Make) -> None:
    rows = write_rows(home / "work" / "metrics.jsonl", [row(step) for step in range(1, 7)])
    live = tracker()
    live.start_run(RUN)
    live.start_stage("rl-mixed", {"key": KEY, "metrics_file": str(rows), "committed": 4})
    assert live.flush(60)
    assert [step for step, _ in history(home, "loss")] == [1, 2, 3, 4]


def test_a_headline_that_changes_is_a_new_point_and_one_that_does_not_is_none(
    home: Path, tracker: Make
) -> None:
    live = tracker()
    live.start_run(RUN)
    tell_stage(live, range(1, 2))
    for value in (0.5, 0.5, 0.75):
        end_stage(live, headline={"pass_rate": value})
    assert live.flush(60)
    assert history(home, "pass_rate") == [(0, 0.5), (1, 0.75)]


def test_a_run_deleted_in_the_ui_is_restored_and_goes_on(home: Path, tracker: Make, said: list[str]) -> None:
    live = tracker()
    live.start_run(RUN)
    tell_stage(live, range(1, 4))
    assert live.flush(60)
    for run in runs(home).values():
        client(home).delete_run(run.info.run_id)
    live.commit("rl-mixed", 4, [row(4)])
    assert live.flush(60)
    assert [step for step, _ in history(home, "loss")] == [1, 2, 3, 4]
    assert runs(home)["pro-1"].data.params["rl_mixed.steps"] == "3"
    assert "it is restored, or a new one is made" in said[0]
    assert [line.endswith("it is restored") for line in said[1:-1]] == [True, True]
    assert said[-1] == "MLflow is up to date again"


def interrupted(home: Path, tracker: Make) -> None:
    """A run with one finished stage, killed in its second after step 3."""
    first = tracker()
    first.start_run(RUN)
    write_rows(home / "store" / "cold-start" / KEY[:16] / "_run" / "metrics.jsonl", [row(1), row(2)])
    first.start_stage("cold-start", {"key": KEY, "metrics_file": "gone", "committed": 2})
    first.end_stage("cold-start", "FINISHED", headline={"pass_rate": 0.5}, counts={}, artifacts={})
    rows = write_rows(home / "work" / "metrics.jsonl", [row(step) for step in range(1, 4)])
    first.start_stage("rl-mixed", {"key": KEY, "metrics_file": str(rows), "committed": 3})
    first.close(60)


def resumed(home: Path, tracker: Make) -> None:
    """The next start of that run, up to step 5."""
    second = tracker()
    second.start_run(RUN)
    second.reused_stage("cold-start", RUN["run"], KEY, {"pass_rate": 0.5})  # type: ignore[arg-type]
    rows = home / "work" / "metrics.jsonl"
    second.start_stage("rl-mixed", {"key": KEY, "metrics_file": str(rows), "committed": 3, "attempt": 2})
    write_rows(rows, [row(step) for step in range(1, 6)])
    second.commit("rl-mixed", 5, [row(4), row(5)])
    assert second.flush(60)


@pytest.mark.parametrize("gone", ["nothing", "deleted", "purged", "child purged"])
def test_runs_deleted_between_two_starts_come_back_with_every_point_once(
    home: Path, tracker: Make, said: list[str], gone: str
) -> None:
    interrupted(home, tracker)
    before = {name: run.info.run_id for name, run in runs(home).items()}
    names = {"nothing": (), "child purged": ("cold-start",)}.get(gone, tuple(before))
    for name in names:
        client(home).delete_run(before[name])
        if "purged" in gone:
            client(home)._tracking_client.store._hard_delete_run(before[name])
    resumed(home, tracker)
    after = {name: run.info.run_id for name, run in runs(home).items()}
    assert {name for name in before if before[name] != after[name]} == (
        set(names) if "purged" in gone else set()
    )
    assert [step for step, _ in history(home, "loss", "cold-start")] == [1, 2]
    assert [step for step, _ in history(home, "loss")] == [1, 2, 3, 4, 5]
    assert runs(home)["rl-mixed"].data.tags["mlflow.parentRunId"] == after["pro-1"]
    text = {"nothing": "", "deleted": "it is restored"}.get(gone, "a new one is made and filled")
    assert all(text in line or "up to date again" in line for line in said)
    assert bool(said) == (gone != "nothing")


def test_a_deleted_experiment_says_how_to_restore_it_and_heals(
    home: Path, tracker: Make, said: list[str]
) -> None:
    live = tracker()
    live.start_run(RUN)
    tell_stage(live, range(1, 3))
    assert live.flush(60)
    experiment = client(home).get_experiment_by_name("test").experiment_id
    client(home).delete_experiment(experiment)
    live.commit("rl-mixed", 3, [row(3)])
    assert not live.flush(2.0)
    assert any(f"mlflow experiments restore --experiment-id {experiment}" in line for line in said)
    client(home).restore_experiment(experiment)
    assert live.flush(60)
    assert [step for step, _ in history(home, "loss")] == [1, 2, 3]


@pytest.mark.slow
def test_a_locked_database_only_warns_and_is_filled_later(home: Path, tracker: Make, said: list[str]) -> None:
    ended = tracker()
    ended.start_run({**RUN, "run": "pro-0"})
    ended.end_run("FINISHED", {})
    ended.close(60)
    live = tracker()
    live.start_run(RUN)
    tell_stage(live, range(1, 2))
    assert live.flush(60)
    locker = sqlite3.connect(home / "mlflow.db", isolation_level=None)
    locker.execute("BEGIN EXCLUSIVE")
    started = time.monotonic()
    live.commit("rl-mixed", 2, [row(2)])
    assert time.monotonic() - started < 5.0
    with pytest.raises(MimoError, match="database locked"):
        sync_run(home, "pro-0")
    _wait_until(lambda: bool(said), 60)
    locker.execute("ROLLBACK")
    locker.close()
    assert live.flush(60)
    assert "database locked" in said[0]
    assert [step for step, _ in history(home, "loss")] == [1, 2]


def test_a_server_that_is_away_is_warned_of_once_and_nothing_waits_for_it(
    tracker: Make, said: list[str]
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    live = tracker(uri=f"http://127.0.0.1:{port}")
    started = time.monotonic()
    live.start_run(RUN)
    tell_stage(live, range(1, 50))
    assert time.monotonic() - started < 5.0
    _wait_until(lambda: bool(said), 30)
    live.close(timeout=1.0)
    assert "server unreachable" in said[0]
    assert [line for line in said if "server unreachable" in line] == said[:1]
    assert "mimo track sync pro-1" in said[-1]


def test_more_than_the_queue_holds_is_replayed_from_the_journal(
    home: Path, tracker: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mimo.tracking.thread._QUEUE", 10)
    live = tracker()
    live.start_run(RUN)
    tell_stage(live, range(1, 101))
    assert live.flush(60)
    assert [step for step, _ in history(home, "loss")] == list(range(1, 101))


def test_a_call_mlflow_refuses_is_left_out_and_the_next_ones_arrive(
    home: Path, tracker: Make, said: list[str]
) -> None:
    live = tracker()
    live.start_run(RUN)
    live.commit("no-such-stage", 1, [row(1)])
    tell_stage(live, range(1, 3))
    assert live.flush(60)
    live.close()
    assert [step for step, _ in history(home, "loss")] == [1, 2]
    assert "left out" in said[0]
    assert "1 updates were left out" in said[1]


def test_a_password_in_the_uri_is_neither_kept_nor_shown(home: Path, tracker: Make, said: list[str]) -> None:
    live = tracker(uri="http://me:hunter2@127.0.0.1:1", uri_written="http://${env:WHO}@127.0.0.1:1")
    live.start_run(RUN)
    _wait_until(lambda: bool(said), 30)
    live.close(timeout=0.5)
    kept = (home / "runs" / "pro-1" / "tracking.jsonl").read_text()
    assert "hunter2" not in "".join([kept, live.location, *said])
    assert "${env:WHO}" in kept


def test_close_ends_the_thread(tracker: Make) -> None:
    live = tracker()
    live.start_run(RUN)
    live.close(60)
    assert not [one for one in threading.enumerate() if one.name == "mimo-tracking" and one.is_alive()]


def _wait_until(true: Callable[[], bool], seconds: float) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "waited too long"
        time.sleep(0.05)
