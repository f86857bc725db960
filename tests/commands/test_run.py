"""`mimo run` and the stage commands as a user sees them: text without a terminal, JSON, exit codes."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys

import pytest

from tests.mimo.pipeline.conftest import ROOT, Bench

HEAVY = ("torch", "mlflow", "vllm", "deepspeed", "transformers", "git")

PLAN = """\
stage        plan       why
prepare-env  run        never made
rl-mixed     run        after prepare-env; reused if that comes out equal
mopd2        not-built  not built in this version of mimo
audit        run        after prepare-env and rl-mixed; reused if that comes out equal
"""
PROGRESS = """\
demo.yaml, profile smoke
{plan}HH:MM:SS prepare-env: run (never made)
HH:MM:SS prepare-env: task rejected (as planned)
HH:MM:SS prepare-env: done, 1 units in T
HH:MM:SS rl-mixed: run (never made)
HH:MM:SS rl-mixed: done, 4 units in T
HH:MM:SS mopd2: skipped (not built in this version of mimo)
HH:MM:SS audit: run (never made)
HH:MM:SS audit: done, 1 units in T
"""
SUMMARY = """
stage                 time   why
prepare-env  ran      T  1 of 1 units; never made
rl-mixed     ran      T  4 of 4 units; never made
mopd2        skipped         not built in this version of mimo
audit        ran      T  1 of 1 units; never made

counts
  prepare-env: task rejected: 2

results
  prepare-env/tasks = 3
  rl-mixed/pass_rate = 0.5
  audit/hacks = 0

notes
  prepare-env: three tasks
  rl-mixed: from 0

run RUN, T, profile smoke
again: MIMO_HOME=HOME mimo run RECIPE --profile smoke
"""


def plain(text: str, bench: Bench) -> str:
    """The text with clocks, durations and ids replaced, and no blanks at the ends of lines."""
    text = text.replace(str(bench.recipe), "RECIPE").replace(str(bench.home.root), "HOME")
    text = re.sub(r"\d\d:\d\d:\d\d", "HH:MM:SS", text)
    text = re.sub(r"\d{8}-\d{6}-demo-[0-9a-f]{4}", "RUN", text)
    text = re.sub(r"\b\d+(\.\d)? (s|min \d\d s)\b", "T", text)
    heartbeats = re.sub(r"HH:MM:SS [a-z-]+: (running|\d+/\d+)[^\n]*\n", "", text)
    return "\n".join(line.rstrip() for line in heartbeats.split("\n"))


def run(bench: Bench, *args: str, knobs: dict[str, object] | None = None):  # type: ignore[no-untyped-def]
    return bench.call("run", str(bench.recipe), "--profile", "smoke", *args, knobs=knobs)


def test_output_without_a_terminal(bench: Bench) -> None:
    done = run(bench)
    assert done.returncode == 0
    assert plain(done.stderr, bench) == PROGRESS.format(plan=PLAN)
    assert plain(done.stdout, bench) == SUMMARY
    again = run(bench)
    assert again.returncode == 0
    assert "nothing to do" in again.stdout
    assert "\x1b" not in done.stdout + done.stderr


def test_heartbeats_say_rate_and_time_left(bench: Bench) -> None:
    done = run(bench, "--set", "rl_mixed.steps=12", knobs={"sleep": 0.2})
    beats = [line for line in done.stderr.splitlines() if "/12 step" in line]
    assert len(beats) >= 2
    assert re.search(r"rl-mixed: \d+/12 step, [\d.]+/min, about [\d.]+ s left", beats[-1])


def test_dry_run_writes_nothing(bench: Bench) -> None:
    done = run(bench, "--dry-run")
    assert done.returncode == 0
    assert plain(done.stdout, bench) == PLAN
    assert not bench.home.root.exists()


def test_json_is_a_line_an_event_and_a_report(bench: Bench) -> None:
    done = run(bench, "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows[0]["event"] == "plan"
    assert rows[-1]["event"] == "report"
    assert rows[-1]["headline"]["rl-mixed/pass_rate"] == 0.5
    assert {row["schema"] for row in rows} == {1}
    names = [(row["stage"], row["event"]) for row in rows if row["event"] in ("start", "done", "skipped")]
    assert names[0] == ("prepare-env", "start")
    assert ("mopd2", "skipped") in names
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("args", "code", "text"),
    [
        (("--from", "rl-mixd"), 2, "did you mean 'rl-mixed'"),
        (("--only", "audit"), 2, "audit cannot run: prepare-env is not done"),
        (("--only", "audit", "--until", "audit"), 2, "--only does not go with"),
        (("--from", "audit", "--until", "prepare-env"), 2, "--until prepare-env comes before --from audit"),
        (("--set", "rl_mixed.stepz=3"), 2, "did you mean"),
        (("--set", "runtime.sampler.device=cuda"), 69, "this machine cannot run"),
        (("--progress", "loud"), 2, "Invalid value for '--progress'"),
    ],
)
def test_refusals(bench: Bench, args: tuple[str, ...], code: int, text: str) -> None:
    done = run(bench, *args)
    assert done.returncode == code
    assert text in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("what", "code"), [("raise", 1), ("gate", 4), ("full", 69)])
def test_exit_codes_of_failed_stages(bench: Bench, what: str, code: int) -> None:
    done = run(bench, knobs={"at": what})
    assert done.returncode == code
    assert "error: rl-mixed: " in done.stderr
    assert "rl-mixed: failed, 1 units are saved" in done.stderr
    assert f"go on: MIMO_HOME={bench.home.root} mimo run {bench.recipe} --profile smoke" in done.stdout
    assert "audit        left" in done.stdout


def test_a_taken_port_of_the_sampler_ends_with_69(bench: Bench) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run(bench, "--set", f"runtime.sampler.port={port}", knobs={"at": "sampler"})
    assert done.returncode == 69
    assert f"error: rl-mixed: port {port} for the sampler is taken" in done.stderr
    assert done.stderr.count("error:") == 1
    assert "Traceback" not in done.stderr


def test_a_stage_command_runs_that_stage(bench: Bench) -> None:
    blocked = bench.call("rl-mixed", str(bench.recipe), "--profile", "smoke")
    assert blocked.returncode == 2
    asked = f"run {bench.recipe} --profile smoke --until prepare-env` makes what is missing"
    assert asked in blocked.stderr
    assert bench.call("prepare-env", str(bench.recipe), "--profile", "smoke").returncode == 0
    done = bench.call("rl-mixed", str(bench.recipe), "--profile", "smoke")
    assert done.returncode == 0
    assert "rl-mixed     ran" in done.stdout
    assert "audit        left" in done.stdout
    again = bench.call("rl-mixed", str(bench.recipe), "--profile", "smoke", "--force")
    assert "asked for with --force" in again.stdout


def test_the_unfinished_run_pins_its_profile(bench: Bench) -> None:
    run(bench, knobs={"at": "raise"})
    plan = bench.call("run", str(bench.recipe), "--dry-run")
    assert "profile smoke (of run " in plan.stderr


def test_with_nothing_to_do_nothing_heavy_is_loaded(bench: Bench) -> None:
    assert run(bench).returncode == 0
    code = (
        "import atexit, sys\nfrom tests.mimo.pipeline.program import use_demo_stages\n"
        "from commands.cli import main\nuse_demo_stages()\n"
        f"atexit.register(lambda: print([name for name in {HEAVY!r} if name in sys.modules]))\n"
        f"sys.argv[1:] = ['run', {str(bench.recipe)!r}, '--profile', 'smoke']\nmain()\n"
    )
    env = {**os.environ, "MIMO_HOME": str(bench.home.root)}
    shown = subprocess.run([sys.executable, "-c", code], env=env, cwd=ROOT, capture_output=True, text=True)
    assert shown.returncode == 0
    assert "nothing to do" in shown.stdout
    assert shown.stdout.splitlines()[-1] == "[]"


LOOKING = """
import sys
from commands.cli import cli
for words in (["--help"], ["run", "--dry-run", *RECIPE], ["status", *RECIPE], ["explain", "audit", *RECIPE]):
    try:
        cli.main(words, standalone_mode=False)
    except SystemExit:
        pass
    print("loaded after", words[0], [name for name in HEAVY if name in sys.modules])
"""


def test_looking_at_the_shipped_recipe_loads_nothing_heavy(bench: Bench) -> None:
    recipe = ["pro", "--profile", "smoke"]
    code = f"RECIPE, HEAVY = {recipe!r}, {HEAVY!r}\n{LOOKING}"
    env = bench.environment()
    shown = subprocess.run([sys.executable, "-c", code], env=env, cwd=ROOT, capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    loaded = [line for line in shown.stdout.splitlines() if line.startswith("loaded after")]
    assert loaded == [f"loaded after {word} []" for word in ("--help", "run", "status", "explain")]
    assert "probe-hacks" in shown.stdout
    assert shown.stdout.count("rl-mixed") >= 3
