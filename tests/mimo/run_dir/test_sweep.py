"""The sweep takes what dead processes left, and nothing of the living."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from mimo.records import to_json
from mimo.run_dir.files import write_json
from mimo.run_dir.home import Home
from mimo.run_dir.locks import KernelLock
from mimo.run_dir.sweep import sweep_home
from tests.mimo.run_dir.test_outputs import KEY, attempt, make


def dead_pid() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def published_but_not_removed(home: Home) -> Path:
    """The state between the rename and the removal of the attempt's folder."""
    make(home, {"x": b"1"})
    work = home.work("audit", "c" * 64)
    work.mkdir()
    assert (home.output("audit", KEY) / "manifest.json").exists()
    write_json(work / "attempt.json", to_json(attempt()))
    return work


def test_temporary_files_of_dead_writers_go(tmp_path: Path) -> None:
    home = Home(tmp_path).create()
    (home.runs / "r").mkdir()
    dead = home.runs / "r" / f".state.json.{dead_pid()}.tmp"
    living = home.runs / "r" / f".state.json.{os.getpid()}.tmp"
    other = home.runs / "r" / ".hidden"
    for path in (dead, living, other):
        path.write_text("")
    assert sweep_home(home) == [dead.name]
    assert living.exists()
    assert other.exists()


def test_the_folder_of_a_published_attempt_goes_unless_locked(tmp_path: Path) -> None:
    home = Home(tmp_path).create()
    work = published_but_not_removed(home)
    with KernelLock(home.stage_lock("audit", "c" * 64), "audit"):
        assert sweep_home(home) == []
    assert sweep_home(home) == [work.name]
    assert not work.exists()


def test_unfinished_work_stays(tmp_path: Path) -> None:
    home = Home(tmp_path).create()
    work = published_but_not_removed(home)
    (work / "out").mkdir()
    assert sweep_home(home) == []
