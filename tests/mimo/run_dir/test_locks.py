"""Kernel locks: one holder, named; freed by the holder's death; not inherited by children."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mimo.errors import Busy, MachineLacks
from mimo.run_dir.locks import KernelLock, holder

HOLD = """
import sys, time
from pathlib import Path
from mimo.run_dir.locks import KernelLock
with KernelLock(Path(sys.argv[1]), "it"):
    print("held", flush=True)
    time.sleep(600)
"""


def _hold(path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_busy_names_the_holder_and_a_kill_frees(tmp_path: Path) -> None:
    path = tmp_path / "locks" / "run.lock"
    with _hold(path) as process:
        held = holder(path)
        assert held is not None
        assert held["pid"] == process.pid
        with (
            pytest.raises(Busy, match=f"recipe x is in use by process {process.pid}") as caught,
            KernelLock(path, "recipe x"),
        ):
            pass
        assert caught.value.exit_code == 75
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert holder(path) is None
    with KernelLock(path, "recipe x"):
        found = holder(path)
        assert found is not None
        assert found["pid"] == os.getpid()
    assert holder(path) is None


def test_a_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with KernelLock(path, "it"):
        child = subprocess.Popen(["sleep", "30"])
    try:
        assert holder(path) is None
    finally:
        child.kill()
        child.wait()


def test_looking_does_not_disturb_locking(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    script = (
        "import sys\nfrom pathlib import Path\nfrom mimo.run_dir.locks import holder\n"
        "while True: holder(Path(sys.argv[1]))"
    )
    with KernelLock(path, "it"):
        pass
    looker = subprocess.Popen([sys.executable, "-c", script, str(path)])
    try:
        time.sleep(0.5)
        for _ in range(50):
            with KernelLock(path, "it"):
                pass
    finally:
        looker.kill()
        looker.wait()


def test_no_file_is_no_holder(tmp_path: Path) -> None:
    assert holder(tmp_path / "absent.lock") is None


def test_a_full_disk_does_not_keep_gc_from_its_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int, data: bytes, offset: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "a.lock"
    monkeypatch.setattr(os, "pwrite", full)
    with KernelLock(path, "it"):
        held = holder(path)
        assert held is not None
        assert held["pid"] is None
        with pytest.raises(Busy, match="it is in use by process unknown"), KernelLock(path, "it"):
            pass


def test_a_lock_that_cannot_be_written_is_the_machines_fault(tmp_path: Path) -> None:
    (tmp_path / "locks").write_text("a file")
    with (
        pytest.raises(MachineLacks, match="cannot write the lock file") as caught,
        KernelLock(tmp_path / "locks" / "a.lock", "it"),
    ):
        pass
    assert "MIMO_HOME" in (caught.value.hint or "")
