"""Commands that look at a recipe: status, explain, logs, accept, runs, gc."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from mimo.run_dir.outputs import every
from tests.mimo.pipeline.conftest import Bench

pytestmark = pytest.mark.slow


@pytest.fixture
def done(bench: Bench) -> Bench:
    """A bench whose recipe has run."""
    assert bench.run().error is None
    return bench


def call(bench: Bench, *args: str) -> str:
    result = bench.call(*args)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_status_takes_the_profile_of_the_newest_run(done: Bench) -> None:
    text = call(done, "status", str(done.recipe))
    assert "(profile smoke): done (run " in text
    assert "rl-mixed     cached" in text
    data = json.loads(call(done, "status", str(done.recipe), "--json"))
    assert [row["state"] for row in data["stages"]] == ["cached", "cached", "not-built", "cached"]
    assert data["status"] == "done"


def test_status_before_any_run(bench: Bench) -> None:
    assert "never run" in call(bench, "status", str(bench.recipe), "--profile", "smoke")
    assert not bench.home.root.exists()


def test_a_state_folder_that_is_a_file_is_one_line(bench: Bench) -> None:
    bench.home.root.write_text("a file")
    done = bench.call("status", str(bench.recipe), "--profile", "smoke")
    assert done.returncode == 1
    assert done.stderr.splitlines()[0].startswith(f"error: {bench.home.root}")
    assert "Traceback" not in done.stderr
    assert "Traceback" in bench.call("status", str(bench.recipe), "--profile", "smoke", "-v").stderr


def test_explain(done: Bench) -> None:
    text = call(done, "explain", "rl-mixed", str(done.recipe), "--set", "rl_mixed.group_size=4")
    assert "param group_size: 8 -> 4" in text
    args = ("explain", "audit", str(done.recipe), "--set", "rl_mixed.group_size=4", "--json")
    causes = json.loads(call(done, *args))["causes"]
    assert [cause["stage"] for cause in causes] == ["rl-mixed", "audit"]


def test_logs(done: Bench) -> None:
    assert call(done, "logs", "rl-mixed", str(done.recipe)) == "the first line of the log \n"
    missing = done.call("logs", "mopd2", str(done.recipe))
    assert missing.returncode == 2
    assert "has no log yet" in missing.stderr


def test_logs_follow_until_the_run_ends(bench: Bench) -> None:
    process = bench.start("run", str(bench.recipe), "--profile", "smoke", knobs={"sleep": 0.5})
    deadline = time.monotonic() + 60
    while not list(bench.home.outputs("rl-mixed").glob("*.work/stage.log")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    followed = bench.call("logs", "-f", "rl-mixed", str(bench.recipe))
    process.communicate()
    assert process.returncode == 0
    assert "the first line of the log" in followed.stdout


def test_accept_refuses_what_is_no_decision(done: Bench) -> None:
    refused = done.call("accept", "rl-mixed", str(done.recipe))
    assert refused.returncode == 2
    assert "nothing to accept: rl-mixed is cached" in refused.stderr


def test_runs(done: Bench) -> None:
    text = call(done, "runs")
    assert "demo" in text
    assert "done" in text
    (row,) = json.loads(call(done, "runs", "ls", "--json"))["runs"]
    assert (row["status"], row["profile"], row["starts"]) == ("done", "smoke", 1)
    shown = json.loads(call(done, "runs", "show", "last", "--json"))
    assert shown["record"]["recipe_file"] == str(done.recipe)
    assert shown["headline"]["audit/hacks"] == 0.0
    wrong = done.call("runs", "show", "nope")
    assert wrong.returncode == 2


def test_gc_keeps_what_kept_runs_use(done: Bench) -> None:
    assert json.loads(call(done, "gc", "--dry-run", "--json"))["items"] == []
    for _ in range(2):
        done.run(force=("rl-mixed",))
    old = {item.folder.name for item in every(done.home, "audit")}
    done.run("audit.confidence=0.9")
    age(done.home.root)
    items = json.loads(call(done, "gc", "--dry-run", "--json", "--keep-runs", "1"))["items"]
    assert {Path(item["path"]).name for item in items if item["why"] != "set aside"} == old
    aside = [item for item in items if item["why"] == "set aside"]
    assert len(aside) == 2
    assert all(item["bytes"] > 0 for item in items)
    unasked = done.call("gc", "--keep-runs", "1")
    assert unasked.returncode == 2
    assert "add --yes" in unasked.stderr
    assert len(every(done.home, "audit")) == len(old) + 1
    text = done.call("gc", "--keep-runs", "1", "--yes")
    assert text.returncode == 0
    assert f"{len(old) + 2} items" in text.stdout
    assert "freed" in text.stderr
    assert len(every(done.home, "audit")) == 1
    assert set(done.states("audit.confidence=0.9").values()) == {"cached", "not-built"}


def test_gc_takes_old_unfinished_work(bench: Bench, knobs) -> None:  # type: ignore[no-untyped-def]
    knobs(at="raise")
    bench.run()
    assert json.loads(call(bench, "gc", "--dry-run", "--json"))["items"] == []
    age(bench.home.root)
    (item,) = json.loads(call(bench, "gc", "--json", "--yes"))["items"]
    assert item["why"] == "unfinished, untouched for a week"
    assert not Path(item["path"]).exists()


def age(root: Path) -> None:
    """Make everything a month old."""
    then = time.time() - 30 * 86400
    for path in [root, *root.rglob("*")]:
        os.utime(path, (then, then))
