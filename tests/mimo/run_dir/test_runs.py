"""Folders of runs: newest first, by recipe and profile; events in order."""

from __future__ import annotations

from pathlib import Path

from mimo.run_dir.home import Home
from mimo.run_dir.runs import RunFolder, RunRecord, RunState, list_runs, new_run_id


def record(run: str, created: float, file: str = "/r/pro.yaml", profile: str = "smoke") -> RunRecord:
    return RunRecord(
        run=run,
        recipe_file=file,
        name="pro",
        variant="pro",
        profile=profile,
        overrides=(),
        created=created,
        result="x",
        recipe={},
        origins={},
        git={},
        command="mimo run",
    )


def test_list_is_newest_first_and_filtered(tmp_path: Path) -> None:
    home = Home(tmp_path).create()
    for name, created, file in (
        ("a", 1.0, "/r/pro.yaml"),
        ("b", 3.0, "/r/pro.yaml"),
        ("c", 2.0, "/r/flash.yaml"),
    ):
        RunFolder.create(home, record(name, created, file))
    (home.runs / "torn").mkdir()
    assert [run.run_id for run in list_runs(home)] == ["b", "c", "a"]
    assert [run.run_id for run in list_runs(home, Path("/r/pro.yaml"))] == ["b", "a"]
    assert list_runs(home, Path("/r/pro.yaml"), "laptop") == []


def test_state_and_events_come_back(tmp_path: Path) -> None:
    run = RunFolder.create(Home(tmp_path).create(), record("a", 1.0))
    assert run.state() is None
    run.write_state(RunState(status="running", pid=1, host="h", starts=1, started=1.0))
    run.update_state(status="done", used={"audit": "abc"})
    state = run.state()
    assert state is not None
    assert (state.status, state.pid, state.used) == ("done", 1, {"audit": "abc"})
    run.event("audit", "start", {"attempt": 1})
    run.event(None, "end", {})
    assert [(item.stage, item.event) for item in run.events()] == [("audit", "start"), (None, "end")]


def test_run_ids_name_the_recipe_and_differ() -> None:
    ids = {new_run_id("pro") for _ in range(20)}
    assert len(ids) == 20
    assert all("-pro-" in item for item in ids)
