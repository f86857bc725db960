"""The doctor's checks on real files, locks and processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from mimo.backends import process_tree
from mimo.pipeline import doctor_state
from mimo.pipeline.doctor import examine


def test_storage_is_checked_where_the_state_would_be(tmp_path: Path) -> None:
    disk, locks, wal = doctor_state.storage(tmp_path / "not" / "yet", wanted_gb=0)
    assert [disk.level, locks.level, wal.level] == ["ok", "ok", "ok"]
    assert list(tmp_path.iterdir()) == []
    [full, *_] = doctor_state.storage(tmp_path, wanted_gb=1e9)
    assert full.level == "lack"
    assert "mimo gc" in str(full.remedy)


def test_a_process_whose_guardian_is_gone_is_found() -> None:
    left = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"],
        env={**os.environ, process_tree.MARK: "doctor-test"},
    )
    try:
        said = [finding for finding in doctor_state.leftovers() if finding.level == "lack"]
        assert any(str(left.pid) in str(finding.remedy).split() for finding in said)
    finally:
        left.send_signal(signal.SIGKILL)
        left.wait()
    again = [finding for finding in doctor_state.leftovers() if finding.level == "lack"]
    assert not any(str(left.pid) in str(finding.remedy).split() for finding in again)


def test_a_segment_nobody_holds_is_found() -> None:
    path = process_tree.SHM / f"psm_doctor_{os.getpid()}"
    path.write_bytes(b"x")
    os.utime(path, (0, 0))
    try:
        assert any(str(path) in str(finding.remedy) for finding in doctor_state.leftovers())
        with path.open():
            assert not any(str(path) in str(finding.remedy) for finding in doctor_state.leftovers())
    finally:
        path.unlink()


def test_every_lack_and_note_has_a_remedy(tmp_path: Path) -> None:
    diagnosis = examine(tmp_path)
    assert all(finding.remedy for finding in diagnosis.findings if finding.level != "ok")
    assert "smoke" in diagnosis.profiles
