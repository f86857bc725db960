"""`kill -9` at random moments: the state stays consistent, nothing is left, no metric row is doubled."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from mimo.run_dir import manifest as manifests
from mimo.run_dir.attempt import Work
from mimo.run_dir.files import read_lines
from mimo.run_dir.outputs import every
from tests.mimo.pipeline.conftest import Bench

STEPS = 12
ROUNDS = 20


@pytest.mark.slow
def test_kill_loop(bench: Bench) -> None:
    chance = random.Random(20261)
    kills = 0
    for number in range(ROUNDS):
        process, children = start(bench)
        kill_at(process, children, 0.3 + chance.random() * 2.2)
        kills += process.returncode != 0
        check_consistent(bench)
        if process.returncode == 0:
            make_work(bench, number)
    assert kills >= ROUNDS // 2
    last = bench.call(*arguments(bench))
    assert last.returncode == 0, last.stderr
    check_consistent(bench)
    check_finished(bench)


def arguments(bench: Bench) -> tuple[str, ...]:
    args = ("run", str(bench.recipe), "--profile", "smoke", "--progress", "none")
    return (*args, "--set", f"rl_mixed.steps={STEPS}")


def start(bench: Bench) -> tuple[subprocess.Popen[str], list[psutil.Process]]:
    return bench.start(*arguments(bench), knobs={"sleep": 0.03}), []


def kill_at(process: subprocess.Popen[str], children: list[psutil.Process], seconds: float) -> None:
    """Kill the program alone (its stage must notice by itself) unless it ends before."""
    deadline = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    if process.poll() is None:
        children += psutil.Process(process.pid).children(recursive=True)
        os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    _, alive = psutil.wait_procs(children, timeout=10)
    assert not [item for item in alive if item.status() != psutil.STATUS_ZOMBIE]


def check_consistent(bench: Bench) -> None:
    """Published outputs are whole; unfinished work has the rows and files of its commits at least."""
    for stage in bench.order:
        for item in every(bench.home, stage):
            assert manifests.problems(item.folder, item.manifest) == []
        for folder in bench.home.outputs(stage).glob("*.work"):
            work = Work(folder)
            committed = work.committed()
            steps = [row["step"] for row in read_lines(work.metrics)]
            assert len(steps) == len(set(map(str, steps)))
            if committed is not None and stage == "rl-mixed" and work.out.exists():
                assert set(range(1, committed.step + 1)) <= {int(str(step)) for step in steps}
                assert all((work.out / f"step-{step}").exists() for step in range(1, committed.step + 1))


def make_work(bench: Bench, number: int) -> None:
    """Take a result away, so that the next round has a stage to run again."""
    stage = ("rl-mixed", "audit", "prepare-env")[number % 3]
    shutil.rmtree(every(bench.home, stage)[0].folder)


def check_finished(bench: Bench) -> None:
    output = bench.output("rl-mixed")
    rows = read_lines(output / "_run" / "metrics.jsonl")
    assert [row["step"] for row in rows] == list(range(1, STEPS + 1))
    left = [path for path in bench.home.root.rglob("*") if is_litter(path)]
    assert left == []
    assert len(list(bench.home.runs.iterdir())) >= 1


def is_litter(path: Path) -> bool:
    inside_aside = any(".old-" in part for part in path.parts)
    return not inside_aside and (path.name.endswith((".tmp", ".part", ".work")) or path.name == "scratch")
