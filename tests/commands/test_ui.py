"""`mimo ui`: the real pages over a real store, gone after Ctrl-C; what needs no server, what has no store."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from commands.cli import cli
from mimo.backends.process_tree import descendants, facts_of, over
from mimo.errors import RecipeError
from mimo.run_dir.home import Home
from mimo.run_dir.runs import RunFolder, RunRecord
from tests.mimo.pipeline.conftest import ROOT

RUN = "20260101-000000-demo-0000"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("MIMO_HOME", str(tmp_path))
    return Home(tmp_path)


def tracked_at(home: Home, uri: str) -> None:
    record = RunRecord(
        run=RUN, recipe_file="demo.yaml", name="demo", variant="pro", profile="smoke", overrides=(),
        created=0.0, result="", origins={}, git={}, command="mimo run demo.yaml",
        recipe={"runtime": {"tracking_uri": uri}, "tracking": {"experiment": "e"}, "stages": []},

    )  # fmt: skip
    RunFolder.create(home, record)


def call(*args: str) -> Result:
    return CliRunner().invoke(cli, ["ui", *args])


def test_a_run_tracked_on_a_server_needs_none_here(home: Home) -> None:
    tracked_at(home, "https://me:hidden@mlflow.example/")
    shown = call(RUN)
    assert shown.exit_code == 0
    assert "https://***@mlflow.example/" in shown.output
    assert "hidden" not in shown.output


def test_what_is_not_tracked_is_one_clear_error(home: Home) -> None:
    tracked_at(home, "none")
    refused = call(RUN)
    assert isinstance(error := refused.exception, RecipeError)
    assert "was not tracked" in error.message
    assert "starting" not in refused.output
    assert isinstance(error := call().exception, RecipeError)
    assert f"nothing was tracked in {home.root} yet" in error.message


@pytest.mark.slow
def test_the_pages_answer_and_end_with_ctrl_c(home: Home) -> None:
    database = home.root / "mlflow.db"
    database.touch()  # MLflow fills an empty one when it opens it
    process = subprocess.Popen(
        [sys.executable, "-m", "mimo", "ui", "--json"],
        cwd=ROOT,
        env={**os.environ, "MIMO_HOME": str(home.root)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests in the background ignore it
    )
    assert process.stdout is not None
    told = json.loads(process.stdout.readline())
    tree = descendants(process.pid)
    assert len(tree) >= 2
    assert told["url"].startswith("http://127.0.0.1:")
    with urllib.request.urlopen(told["page"]) as page:
        assert b"MLflow" in page.read()
    asked = urllib.request.Request(
        f"{told['url']}/api/2.0/mlflow/experiments/search",
        data=b'{"max_results": 10}',
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(asked) as answer:
        assert [row["name"] for row in json.load(answer)["experiments"]] == ["Default"]
    assert database.stat().st_size > 0
    os.killpg(process.pid, signal.SIGINT)
    try:
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, said
    left = [pid for pid in tree if (facts := facts_of(pid)) and not over(pid, facts[0])]
    assert left == []
