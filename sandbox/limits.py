"""Limits that kill: what a box uses now, and one thread that looks at all boxes of this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol

from sandbox.base import BoxLimits
from sandbox.cgroups import BoxGroup
from sandbox.paths import used_bytes
from sandbox.procs import Process, all_processes, descendants, proportional_bytes

Kind = Literal["memory", "processes", "disk", "wall"]
_PERIOD_S = 0.05
_IDLE_PERIOD_S = 1.0
_REST = 9
"""The watching thread rests so many times as long as it works (waiting for a daemon is no work): with many
boxes it takes a tenth of a core."""
OWN_PROCESSES = 4
"""bubblewrap outside, its process 1 inside, the supervising bash and the shell: not the box's own use."""


class Meter:
    """Measures one box against its limits: by cgroup where it has one, else from /proc; disk by walking."""

    def __init__(self, limits: BoxLimits, written: Path, group: BoxGroup | None) -> None:
        self._limits = limits
        self._written = written
        self._group = group
        self._hits = group.limits_hit() if group else {}
        self._wall = time.monotonic() + limits.wall_s
        self._next_disk = 0.0

    @property
    def wall_left_s(self) -> float:
        """Seconds until the wall clock limit."""
        return self._wall - time.monotonic()

    @property
    def counts_by_kernel(self) -> bool:
        """Whether a cgroup holds memory and processes; otherwise `exceeded` needs the list of processes."""
        return self._group is not None

    def new_hits(self) -> list[Kind]:
        """Limits of the cgroup that were hit since the last call."""
        if self._group is None:
            return []
        now = self._group.limits_hit()
        kinds: tuple[Kind, ...] = ("memory", "processes")
        hit = [kind for kind in kinds if now[kind] > self._hits[kind]]
        self._hits = now
        return hit

    def exceeded(self, init: int, processes: Sequence[Process]) -> Kind | None:
        """The limit that is exceeded right now, wall clock and disk first."""
        if self.wall_left_s <= 0:
            return "wall"
        if self._disk_is_full():
            return "disk"
        if self._group is not None:
            return "processes" if self._refused_forks() else None
        mine = descendants(init, list(processes))
        if sum(process.threads for process in mine) - (OWN_PROCESSES - 2) >= self._limits.processes:
            return "processes"
        limit = self._limits.memory_mb << 20
        if sum(process.resident for process in mine) <= limit:
            return None
        shares = sum(proportional_bytes(process.pid, process.resident) for process in mine)
        return "memory" if shares > limit else None

    def _refused_forks(self) -> bool:
        now = self._group.limits_hit()["processes"] if self._group else 0
        new = now > self._hits["processes"]
        self._hits["processes"] = now
        return new

    def _disk_is_full(self) -> bool:
        started = time.monotonic()
        if started < self._next_disk:
            return False
        used = used_bytes(self._written)
        self._next_disk = started + 10 * (time.monotonic() - started)
        return used > self._limits.disk_mb << 20


class Watched(Protocol):
    """What the watching thread needs of a box."""

    needs_processes: bool

    @property
    def busy(self) -> bool:
        """Whether a command runs; idle boxes are looked at less often."""
        ...

    def look(self, processes: Sequence[Process]) -> None:
        """Compare with the limits and kill what exceeds them; never raises."""
        ...


class _Watch:
    """The thread; it runs while there are boxes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._boxes: dict[int, Watched] = {}
        self._thread: threading.Thread | None = None

    def add(self, box: Watched) -> None:
        with self._lock:
            self._boxes[id(box)] = box
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="sandbox-watch", daemon=True)
                self._thread.start()

    def remove(self, box: Watched) -> None:
        with self._lock:
            self._boxes.pop(id(box), None)

    def _run(self) -> None:
        next_idle = 0.0
        while True:
            started, worked = time.monotonic(), time.thread_time()
            with self._lock:
                if not self._boxes:
                    self._thread = None
                    return
                boxes = list(self._boxes.values())
            if started >= next_idle:
                next_idle = started + _IDLE_PERIOD_S
            else:
                boxes = [box for box in boxes if box.busy]
            processes = all_processes() if any(box.needs_processes for box in boxes) else []
            for box in boxes:
                box.look(processes)
            time.sleep(max(_PERIOD_S, _REST * (time.thread_time() - worked)))


watch = _Watch()
