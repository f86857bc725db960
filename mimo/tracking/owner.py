"""Which process owns a run, so that a later one can tell whether it still lives."""

from __future__ import annotations

import getpass
import os
import socket
from pathlib import Path


def host() -> str:
    """The name of this machine, as tagged on runs."""
    return socket.gethostname()


def user() -> str:
    """The user's name, or its number where the system knows no name for it."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return str(os.getuid())


def this_process() -> str:
    """`BOOT:PID:START` of this process; unlike a bare pid it is never used twice."""
    return f"{_boot()}:{os.getpid()}:{_start_ticks(os.getpid())}"


def alive(owner: str) -> bool:
    """Whether the process `owner` names still runs on this machine."""
    boot, _, rest = owner.partition(":")
    pid, _, start = rest.partition(":")
    if boot != _boot() or not pid.isdigit():
        return False
    return _start_ticks(int(pid)) == start


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"


def _start_ticks(pid: int) -> str | None:
    """When the process started, in clock ticks since boot; None for no process or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]
