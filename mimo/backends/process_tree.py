"""What a process tree is made of: its processes, by `/proc`, and its segments in `/dev/shm`.

Standard library only: a guardian starts in milliseconds.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

LOOKS = 10
MARK = "MIMO_GUARD"
"""In the environment of every guarded process."""
GUARD_MODULE = "mimo.backends.guardian_process"
SHM = Path("/dev/shm")
Segment = tuple[str, int]
"""Name and inode: a name that was taken again by somebody else is another segment."""


def facts_of(pid: int) -> tuple[str, int, int] | None:
    """State, parent and session of a process; None when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, parent, _, session = stat.rpartition(")")[2].split()[:4]
    return state, int(parent), int(session)


def over(pid: int, state: str) -> bool:
    """Whether a process has ended. The first thread's state says Z while others still hold its memory."""
    try:
        return state in "ZX" and len(os.listdir(f"/proc/{pid}/task")) <= 1  # noqa: PTH208
    except OSError:
        return True


def descendants(root: int) -> list[int]:
    """Every living process below `root`, those below a zombie too."""
    facts = {pid: found for pid in all_pids() if (found := facts_of(pid))}
    children: dict[int, list[int]] = {}
    for pid, (_, parent, _) in facts.items():
        children.setdefault(parent, []).append(pid)
    below: list[int] = []
    stack = [root]
    while stack:
        stack += (next_ones := children.get(stack.pop(), []))
        below += next_ones
    return [pid for pid in below if not over(pid, facts[pid][0])]


def all_pids() -> list[int]:
    """The process ids in `/proc`."""
    return [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()]


def marked(token: str, session: int | None = None) -> list[int]:
    """Living processes with this guard's mark in their environment, or of this session.

    A program that renames itself (vLLM's workers do) overwrites the environment that `/proc` shows.
    """
    mark = f"{MARK}={token}".encode()
    found = []
    for pid in all_pids():
        facts = facts_of(pid)
        if facts is None or over(pid, facts[0]):
            continue
        with suppress(OSError):
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            if facts[2] == session or mark in environment:
                found.append(pid)
    return found


def is_guard(pid: int) -> bool:
    """Whether a process is a guardian: one that ends by itself and must not be killed with its engine."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return GUARD_MODULE.encode() in words


def segments() -> set[Segment]:
    """The files in `/dev/shm` that belong to this user."""
    found = set()
    for entry in os.scandir(SHM):
        try:
            stat = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        if stat.st_uid == os.geteuid():
            found.add((entry.name, stat.st_ino))
    return found


def held_by(pids: Iterable[int]) -> set[str]:
    """Names in `/dev/shm` that these processes map or have open."""
    names: set[str] = set()
    for pid in pids:
        with suppress(OSError):
            for thread in list(Path(f"/proc/{pid}/task").iterdir()):
                if held := _held_by_thread(thread):
                    names |= held
                    break  # its other threads hold the same
    return names


def _held_by_thread(thread: Path) -> set[str]:
    """Nothing for a thread that has ended: a process whose first one has is still seen by the next."""
    names: set[str] = set()
    with suppress(OSError):
        maps = (thread / "maps").read_text(encoding="utf-8", errors="replace")
        names |= {line.partition("/dev/shm/")[2] for line in maps.splitlines() if "/dev/shm/" in line}
        for fd in (thread / "fd").iterdir():
            with suppress(FileNotFoundError):
                names.add(str(fd.readlink()).partition("/dev/shm/")[2])
    return names - {""}


def segments_of(pids: list[int]) -> set[str]:
    """Names in `/dev/shm` that these processes hold, or that carry one of their numbers."""
    numbers = {str(pid) for pid in pids}
    named = {name for name, _ in segments() if numbers & set(re.findall(r"\d+", name))}
    return held_by(pids) | named


def unlink_unheld(names: set[str]) -> None:
    """Remove these segments, but for those that a living process holds."""
    if names:
        for name in names - held_by(all_pids()):
            (SHM / name).unlink(missing_ok=True)


class SharedMemory:
    """Which `/dev/shm` segments a tree made.

    Those that appear after the start and that a process of the tree holds, or that carry its number in their
    name (a semaphore may be open for an instant only: `sem.loky-PID-…`).
    """

    def __init__(self) -> None:
        self._foreign = segments()
        self._looks: dict[Segment, int] = {}
        self.owned: set[Segment] = set()

    def look(self, root: int) -> None:
        """Claim the new segments of the tree below `root`; after `LOOKS` looks a segment is another's."""
        fresh = segments() - self._foreign - self.owned
        if not fresh:
            return
        theirs = segments_of(descendants(root))
        for segment in fresh:
            self._looks[segment] = self._looks.get(segment, 0) + 1
            if segment[0] in theirs:
                self.owned.add(segment)
            elif self._looks[segment] >= LOOKS:
                self._foreign.add(segment)

    def remove(self) -> None:
        """Unlink what the tree made, unless a living process still holds it."""
        unlink_unheld({name for name, _ in self.owned & segments()})


def kill_all(pids: Iterable[int]) -> None:
    """SIGKILL to each; those already gone are no error."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def reap() -> dict[int, int]:
    """Exit codes of the children that ended since the last call (128 + n for signal n)."""
    ended: dict[int, int] = {}
    with suppress(ChildProcessError):
        while (answer := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            code = os.waitstatus_to_exitcode(answer[1])
            ended[answer[0]] = code if code >= 0 else 128 - code
    return ended
