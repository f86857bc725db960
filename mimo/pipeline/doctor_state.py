"""Checks of the doctor that look at state: disk, locks, sqlite, shared memory, what dead runs left."""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mimo.backends import process_tree

SHM_GIB = 1.0
"""The engine and the trainer hold up to 0.5 GiB in /dev/shm while they run."""
STALE_S = 300.0
MOVE = "set MIMO_HOME to a folder on a local disk that you can write"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One fact: `lack` keeps something from working, `note` only narrows what can run."""

    what: str
    level: Literal["ok", "note", "lack"]
    found: str
    remedy: str | None = None
    essential: bool = False
    """Nothing can run when this is lacking."""


def lack(what: str, found: str, remedy: str, *, essential: bool = False) -> Finding:
    """A finding that keeps something from working, with what to do about it."""
    return Finding(what=what, level="lack", found=found, remedy=remedy, essential=essential)


def fails(command: list[str], timeout_s: float = 20.0) -> str | None:
    """Why a command fails (the last line it says), or None."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    said = (done.stderr or done.stdout).strip().splitlines()
    return None if done.returncode == 0 else (said[-1] if said else f"exit {done.returncode}")


def storage(root: Path, *, wanted_gb: float) -> list[Finding]:
    """Disk, locks and sqlite on the file system that holds the state folder; `wanted_gb` of disk free."""
    folder = next(path for path in (root, *root.parents) if path.is_dir())
    free = shutil.disk_usage(folder).free / 1e9
    found = f"{free:.1f} GB free at {root}"
    disk = Finding(what="disk", level="ok", found=found)
    if free < wanted_gb:
        remedy = f"free {wanted_gb - free:.1f} GB more (mimo gc), or set MIMO_HOME to another disk"
        disk = lack("disk", found, remedy)
    try:
        with tempfile.TemporaryDirectory(prefix=".mimo-doctor-", dir=folder) as scratch:
            locks = _works("locks", lambda: _lock_problem(Path(scratch) / "lock"))
            wal = _works("sqlite", lambda: _wal_problem(Path(scratch) / "db"))
    except OSError as error:
        return [disk, lack("state folder", f"{folder}: {error.strerror}", MOVE, essential=True)]
    return [disk, locks, wal]


def _works(what: str, problem_of: Callable[[], str | None]) -> Finding:
    problem = problem_of()
    if problem:
        return lack(what, problem, MOVE, essential=True)
    return Finding(what=what, level="ok", found="fine on the state folder's file system")


_TRY_LOCK = (
    "import fcntl, sys\n"
    "try:\n fcntl.flock(open(sys.argv[1]), fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
    "except BlockingIOError:\n sys.exit(0)\n"
    "sys.exit('a second process got a lock that was held')"
)


def _lock_problem(path: Path) -> str | None:
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return f"kernel locks do not work here: {error.strerror}"
        problem = fails([sys.executable, "-S", "-c", _TRY_LOCK, str(path)])
    return f"kernel locks do not work here: {problem}" if problem else None


def _wal_problem(path: Path) -> str | None:
    try:
        connection = sqlite3.connect(path)
        try:
            mode = connection.execute("pragma journal_mode=wal").fetchone()[0]
            connection.execute("create table t (x)")
            connection.commit()
        finally:
            connection.close()
    except sqlite3.Error as error:
        return f"sqlite cannot write here: {error}"
    return None if mode == "wal" else f"sqlite has no write-ahead log here (mode {mode})"


def shared_memory() -> Finding:
    """Whether /dev/shm has room for the engine and the trainer."""
    facts = os.statvfs(process_tree.SHM)
    free = facts.f_bavail * facts.f_frsize / 2**30
    found = f"{free:.1f} GiB free in {process_tree.SHM}"
    if free < SHM_GIB:
        remedy = f"mount -o remount,size=4G {process_tree.SHM} (in a container: --shm-size=4g)"
        return lack("shared memory", found, remedy)
    return Finding(what="shared memory", level="ok", found=found)


def leftovers() -> list[Finding]:
    """Processes and segments of runs that are dead; the guardians should have left none."""
    orphans = _orphans()
    segments = _dead_segments()
    found = []
    if orphans:
        pids = " ".join(map(str, orphans))
        what = f"{len(orphans)} engine processes without a guardian"
        found.append(lack("leftovers", what, f"kill -9 {pids}"))
    if segments:
        names = " ".join(str(process_tree.SHM / name) for name in segments)
        remedy = f"if no other program made them: rm -f {names}"
        what = f"{len(segments)} shared-memory segments that no process holds"
        found.append(Finding(what="leftovers", level="note", found=what, remedy=remedy))
    return found or [Finding(what="leftovers", level="ok", found="none of dead runs")]


def _orphans() -> list[int]:
    """Marked processes with no guardian above them."""
    mark = f"{process_tree.MARK}=".encode()
    guardians, marked = set(), set()
    for pid in process_tree.all_pids():
        try:
            if mark in Path(f"/proc/{pid}/environ").read_bytes():
                marked.add(pid)
            if b"guardian_process" in Path(f"/proc/{pid}/cmdline").read_bytes():
                guardians.add(pid)
        except OSError:
            continue
    guarded = {below for guardian in guardians for below in process_tree.descendants(guardian)}
    return sorted(marked - guarded - guardians)


def _dead_segments() -> list[str]:
    """This user's segments of vLLM, torch and DeepSpeed that no living process holds, minutes old."""
    held = process_tree.held_by(process_tree.all_pids())
    stale = []
    for name, _ in process_tree.segments():
        path = process_tree.SHM / name
        ours = name.startswith(("psm_", "torch_", "vllm", "nccl-", "shm_"))
        try:
            old = time.time() - path.stat().st_mtime > STALE_S
        except OSError:
            continue
        if ours and old and name not in held:
            stale.append(name)
    return sorted(stale)
