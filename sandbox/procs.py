"""Processes as /proc shows them: who lives in a box, what it uses, and killing exactly those."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import NamedTuple

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Process(NamedTuple):
    """One line of /proc/PID/stat: parent, start in clock ticks since boot, threads, resident bytes."""

    pid: int
    parent: int
    start: int
    threads: int
    resident: int
    state: str


def read_process(pid: int) -> Process | None:
    """The process now, None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    fields = text[text.rindex(b")") + 2 :].split()
    return Process(
        pid, int(fields[1]), int(fields[19]), int(fields[17]), int(fields[21]) * _PAGE, fields[0].decode()
    )


def all_processes() -> list[Process]:
    """Every process that /proc shows."""
    found = (read_process(int(entry)) for entry in os.listdir("/proc") if entry.isdigit())
    return [process for process in found if process is not None]


def descendants(root: int, processes: list[Process]) -> list[Process]:
    """The processes below `root`, without it. A box's processes all are below its process 1."""
    below: dict[int, list[Process]] = {}
    for process in processes:
        below.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    queue = [root]
    while queue:
        children = below.get(queue.pop(), [])
        found += children
        queue += [child.pid for child in children]
    return found


def only_child(parent: int) -> int:
    """The one child of a process with one thread, read without looking at all processes where the kernel
    can."""
    try:
        return int(Path(f"/proc/{parent}/task/{parent}/children").read_text())
    except (OSError, ValueError):
        return next(process.pid for process in all_processes() if process.parent == parent)


def now_ticks() -> int:
    """The current time in the unit of `Process.start`."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS)


def kill_process(process: Process) -> None:
    """SIGKILL to this very process: its start time is compared, so a reused id is never hit."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return
    try:
        current = read_process(process.pid)
        if current is not None and current.start == process.start:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
    finally:
        os.close(handle)


def is_alive(pid: int, start: int) -> bool:
    """Whether the process with this id and start time still runs (a zombie does not)."""
    process = read_process(pid)
    return process is not None and process.start == start and process.state not in "ZX"


def proportional_bytes(pid: int, fallback: int) -> int:
    """The process's share of memory (shared pages divided among sharers), `fallback` where it cannot be
    read."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        return fallback
    return fallback


def boot_id() -> str:
    """An id of this boot of the kernel."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
