"""Memory and process limits by cgroup, version 1 or 2, where this process may make one."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from dataclasses import dataclass
from pathlib import Path

_CONTROLLERS = ("memory", "pids")


@dataclass(frozen=True, slots=True)
class _Parents:
    """Folders under which a box's cgroups are made: one per controller (version 1) or one for all (version
    2)."""

    version: int
    folders: dict[str, Path]


def _mounts() -> dict[str, Path]:
    """Mount point of every version 1 controller, and of version 2 under ``""``."""
    found: dict[str, Path] = {}
    for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines():
        before, _, after = line.partition(" - ")
        kind, _source, options = after.split(" ", 2)
        point = Path(before.split()[4].encode().decode("unicode_escape"))
        if kind == "cgroup2":
            found.setdefault("", point)
        elif kind == "cgroup":
            for controller in set(options.split(",")) & set(_CONTROLLERS):
                found.setdefault(controller, point)
    return found


def _own_groups() -> dict[str, str]:
    """This process's cgroup in every hierarchy, by controller; version 2 under ``""``."""
    found: dict[str, str] = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _number, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            found[controller] = path
    return found


def _usable_v1(mounts: dict[str, Path], own: dict[str, str]) -> dict[str, Path] | None:
    folders: dict[str, Path] = {}
    for controller in _CONTROLLERS:
        if controller not in mounts:
            return None
        inside = mounts[controller] / own.get(controller, "/").lstrip("/")
        for folder in (inside, mounts[controller]):
            if folder.is_dir() and _can_make(folder):
                folders[controller] = folder
                break
        else:
            return None
    return folders


def _can_make(folder: Path) -> bool:
    trial = folder / f"mimo-trial-{os.getpid()}-{time.monotonic_ns()}"
    try:
        trial.mkdir()
        trial.rmdir()
    except OSError:
        return False
    return True


def _usable_v2(mounts: dict[str, Path], own: dict[str, str]) -> Path | None:
    """The nearest group above this process whose children get both controllers."""
    if "" not in mounts:
        return None
    folder = mounts[""] / own.get("", "/").lstrip("/")
    while folder.is_relative_to(mounts[""]):
        control = folder / "cgroup.subtree_control"
        with contextlib.suppress(OSError):
            if not set(_CONTROLLERS) <= set(control.read_text().split()):
                control.write_text(" ".join(f"+{name}" for name in _CONTROLLERS))
            if set(_CONTROLLERS) <= set(control.read_text().split()) and _can_make(folder):
                return folder
        folder = folder.parent
    return None


@functools.cache
def parents() -> _Parents | None:
    """Where cgroups can be made, None if nowhere (as an ordinary user, in most containers)."""
    mounts, own = _mounts(), _own_groups()
    first = _usable_v1(mounts, own)
    if first:
        return _Parents(1, first)
    second = _usable_v2(mounts, own)
    return _Parents(2, {"": second}) if second else None


class BoxGroup:
    """The cgroups of one box. `folders` are all it made; `limits_hit` counts what the kernel refused or
    killed."""

    def __init__(self, name: str) -> None:
        where = parents()
        if where is None:
            raise OSError("no cgroup can be made here")
        self._version = where.version
        self._by_controller = {key: folder / name for key, folder in where.folders.items()}
        self.folders = list(self._by_controller.values())

    def make(self, memory_mb: int, processes: int) -> None:
        """Create the groups with their limits."""
        for folder in self.folders:
            folder.mkdir()
        limit = str(memory_mb << 20)
        memory, pids = (self._by_controller.get(name, self.folders[0]) for name in _CONTROLLERS)
        if self._version == 1:
            (memory / "memory.limit_in_bytes").write_text(limit)
            with contextlib.suppress(OSError):  # only with swap accounting
                (memory / "memory.memsw.limit_in_bytes").write_text(limit)
        else:
            (memory / "memory.max").write_text(limit)
            with contextlib.suppress(OSError):
                (memory / "memory.swap.max").write_text("0")
        (pids / "pids.max").write_text(str(processes))
        events = "memory.oom_control" if self._version == 1 else "memory.events"
        self._counters = {"memory": (memory / events, "oom_kill"), "processes": (pids / "pids.events", "max")}

    @property
    def entries(self) -> list[str]:
        """Files into which a process writes 0 to join."""
        return [str(folder / "cgroup.procs") for folder in self.folders]

    def limits_hit(self) -> dict[str, int]:
        """How often memory (processes killed) and processes (forks refused) hit their limits so far."""
        counts = {}
        for kind, (path, key) in self._counters.items():
            counts[kind] = 0
            with contextlib.suppress(OSError):
                for line in path.read_text().splitlines():
                    name, _, value = line.partition(" ")
                    counts[kind] += int(value) if name == key else 0
        return counts


def remove_groups(folders: list[Path], timeout_s: float = 2.0) -> None:
    """Kill what is in the groups and remove them; missing ones are fine."""
    for folder in folders:
        deadline = time.monotonic() + timeout_s
        while folder.is_dir() and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                for pid in (folder / "cgroup.procs").read_text().split():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(pid), 9)
            with contextlib.suppress(OSError):
                folder.rmdir()
                break
            time.sleep(0.005)
