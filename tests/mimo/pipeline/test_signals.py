"""Stops from outside: Ctrl-C once and twice, SIGTERM, a closed terminal, `mimo stop`; a second run."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shlex
import signal
import subprocess
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from mimo.run_dir.files import read_lines
from tests.mimo.pipeline.conftest import ROOT, Bench

pytestmark = pytest.mark.slow
STEPS = 40


def arguments(bench: Bench) -> tuple[str, ...]:
    return ("run", str(bench.recipe), "--profile", "smoke", "--set", f"rl_mixed.steps={STEPS}")


@pytest.fixture
def running(bench: Bench) -> Iterator[subprocess.Popen[str]]:
    """The program in its slow stage, at least two steps in."""
    process = bench.start(*arguments(bench), knobs={"sleep": 0.2})
    wait_for_step(bench, 2)
    yield process
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def committed(bench: Bench) -> int:
    for path in bench.home.outputs("rl-mixed").glob("*.work/progress.json"):
        return int(json.loads(path.read_bytes())["step"])
    return 0


def wait_for_step(bench: Bench, step: int) -> None:
    deadline = time.monotonic() + 60
    while committed(bench) < step:
        assert time.monotonic() < deadline, "the stage does not get on"
        time.sleep(0.02)


def family(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def assert_gone(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=10)
    assert not [item for item in alive if item.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.parametrize(
    ("number", "code", "status"),
    [
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 75, "stopped"),
        (signal.SIGHUP, 75, "stopped"),
    ],
)
def test_the_first_signal_stops_at_a_safe_point(
    bench: Bench, running: subprocess.Popen[str], number: int, code: int, status: str
) -> None:
    children = family(running)
    running.send_signal(number)
    out, err = running.communicate(timeout=30)
    assert running.returncode == code
    step = committed(bench)
    assert f"rl-mixed stopped; step {step} is saved" in err
    assert "press Ctrl-C again to kill" in err
    resume = f"mimo run {bench.recipe} --profile smoke --set rl_mixed.steps={STEPS}"
    assert f"go on: MIMO_HOME={bench.home.root} {resume}" in out
    (log,) = bench.home.outputs("rl-mixed").glob("*.work/stage.log")
    assert "Traceback" not in log.read_text()
    assert_gone(children)
    assert [run.state().status for run in bench.project().runs()] == [status]  # type: ignore[union-attr]


def test_closing_the_terminal_stops_at_a_safe_point(bench: Bench) -> None:
    ours, theirs = os.openpty()
    shell = subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"],
        cwd=ROOT,
        env=bench.environment({"sleep": 0.2}),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        preexec_fn=lambda: (os.setsid(), fcntl.ioctl(0, termios.TIOCSCTTY, 0)),
    )
    os.close(theirs)
    reader = threading.Thread(target=lambda: read_to_the_end(ours), daemon=True)
    reader.start()
    os.write(ours, (shlex.join(bench.program(*arguments(bench))) + "\n").encode())
    wait_for_step(bench, 2)
    below = family(shell)
    os.close(ours)
    shell.wait(timeout=30)
    _, alive = psutil.wait_procs(below, timeout=60)
    assert not alive
    (run,) = bench.project().runs()
    state = run.state()
    assert state is not None
    step = committed(bench)
    assert (state.status, state.message) == ("stopped", f"rl-mixed stopped; step {step} is saved")
    again = bench.call(*arguments(bench))
    assert (again.returncode, f"from {step}" in again.stdout) == (0, True)


def read_to_the_end(terminal: int) -> None:
    with contextlib.suppress(OSError):
        while os.read(terminal, 4096):
            pass


def test_nohup_outlives_its_terminal(bench: Bench) -> None:
    process = bench.start(*arguments(bench), knobs={"sleep": 0.2}, before=("nohup",))
    wait_for_step(bench, 2)
    process.send_signal(signal.SIGHUP)
    wait_for_step(bench, committed(bench) + 2)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 75


def test_ctrl_c_of_a_pipeline_whose_reader_dies_first_is_still_a_stop(
    bench: Bench, running: subprocess.Popen[str]
) -> None:
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.close()
    running.stderr.close()
    wait_for_step(bench, committed(bench) + 2)
    running.send_signal(signal.SIGINT)
    assert running.wait(timeout=30) == 130
    assert [run.state().status for run in bench.project().runs()] == ["interrupted"]  # type: ignore[union-attr]


def test_the_second_signal_kills(bench: Bench) -> None:
    process = bench.start(*arguments(bench), knobs={"sleep": 90})
    deadline = time.monotonic() + 60
    while not list(bench.home.outputs("rl-mixed").glob("*.work/progress.json")) and not stage_runs(bench):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(1.0)
    children = family(process)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - began < 60
    assert process.returncode == 130
    assert "rl-mixed was killed" in err
    assert f"go on: MIMO_HOME={bench.home.root} mimo run" in out
    assert_gone(children)


def stage_runs(bench: Bench) -> bool:
    return bool(list(bench.home.outputs("rl-mixed").glob("*.work/spec.json")))


def test_stop_command_waits_and_the_same_command_goes_on(
    bench: Bench, running: subprocess.Popen[str]
) -> None:
    stopped = bench.call("stop", str(bench.recipe), "--profile", "smoke")
    assert stopped.returncode == 0
    assert f"stopped process {running.pid} at a safe point" in stopped.stdout
    running.communicate(timeout=10)
    assert running.returncode == 75
    before = committed(bench)
    again = bench.call(*arguments(bench))
    assert again.returncode == 0
    assert before >= 2
    assert f"from {before}" in again.stdout
    rows = read_lines(bench.output("rl-mixed") / "_run" / "metrics.jsonl")
    assert [row["step"] for row in rows] == list(range(1, STEPS + 1))
    idle = bench.call("stop", str(bench.recipe), "--profile", "smoke")
    assert (idle.returncode, "is not running" in idle.stdout) == (0, True)


def test_a_second_run_is_busy_and_names_the_first(bench: Bench, running: subprocess.Popen[str]) -> None:
    second = bench.call(*arguments(bench))
    assert second.returncode == 75
    assert f"recipe demo.yaml (profile smoke) is in use by process {running.pid}" in second.stderr
    status = bench.call(
        "status", str(bench.recipe), "--profile", "smoke", "--set", f"rl_mixed.steps={STEPS}", "--json"
    )
    told = json.loads(status.stdout)
    assert (told["status"], told["running"]) == ("running", "rl-mixed")
    assert told["holder"]["pid"] == running.pid


def test_a_guarded_engine_ends_with_the_program_and_its_guardian_tidies_up(bench: Bench) -> None:
    process = bench.start(*arguments(bench), knobs={"sleep": 0.2, "at": "guarded"})
    wait_for_step(bench, 3)
    (told,) = bench.home.outputs("rl-mixed").glob("*.work/out/guarded")
    pid, folder = told.read_text().split()
    children = family(process)
    assert int(pid) in {item.pid for item in children}
    assert Path(folder).is_dir()
    process.kill()
    process.communicate()
    assert_gone(children)
    assert not Path(folder).exists()


def test_killing_the_program_ends_its_stage_at_once(bench: Bench, running: subprocess.Popen[str]) -> None:
    children = family(running)
    assert children
    running.kill()
    running.communicate()
    assert_gone(children)
    status = bench.call("status", str(bench.recipe), "--profile", "smoke", "--json")
    assert json.loads(status.stdout)["status"] == "killed"
