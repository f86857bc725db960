"""`mimo gc`: what in a home can go, why and how big; then its removal."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mimo.errors import Busy
from mimo.run_dir.attempt import Work
from mimo.run_dir.files import read_json
from mimo.run_dir.home import Home
from mimo.run_dir.locks import KernelLock, holder
from mimo.run_dir.manifest import read
from mimo.run_dir.runs import list_runs
from mimo.types import Json

_IDLE_S = 7 * 86400.0
_YOUNG_S = 3600.0
_KEY = re.compile(r"^[0-9a-f]{16}$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Removable:
    """A file or folder that nothing needs, and why."""

    path: Path
    stage: str
    why: str
    size: int

    def as_json(self) -> dict[str, Json]:
        """The item as data."""
        return {"path": str(self.path), "stage": self.stage, "why": self.why, "bytes": self.size}


def removable(home: Home, *, keep_runs: int) -> list[Removable]:
    """Everything that can go: set-aside folders, unfinished work of a week ago, results no kept run uses.

    Kept are the results that the newest `keep_runs` runs of each recipe and profile used, and all of the
    last hour.
    """
    used = used_keys(home, keep_runs)
    found = []
    for folder in sorted(home.store.iterdir()) if home.store.is_dir() else []:
        for path in sorted(folder.iterdir()):
            why = _why(home, path, used.get(folder.name, set()))
            if why:
                found.append(Removable(path=path, stage=folder.name, why=why, size=_size(path)))
    return found


def remove(home: Home, item: Removable) -> bool:
    """Remove it; False when a run works on it at this moment."""
    name = item.path.name.partition(".")[0]
    try:
        with KernelLock(home.locks / f"{item.stage}-{name}.lock", item.path.name):
            if item.path.is_dir():
                shutil.rmtree(item.path)
            else:
                item.path.unlink(missing_ok=True)
    except Busy:
        return False
    return True


def used_keys(home: Home, keep_runs: int) -> dict[str, set[str]]:
    """Stage -> the 16-digit keys that kept runs use; runs that run now are always kept."""
    used: dict[str, set[str]] = {}
    seen: dict[tuple[str, str], int] = {}
    for run in list_runs(home):
        record, state = run.record(), run.state()
        if record is None or state is None:
            continue
        name = (record.recipe_file, record.profile)
        seen[name] = seen.get(name, 0) + 1
        if seen[name] <= keep_runs or state.status == "running":
            for stage, key in state.used.items():
                used.setdefault(stage, set()).add(key)
    return used


def _why(home: Home, path: Path, used: set[str]) -> str | None:
    if ".old-" in path.name:
        return "set aside"
    age = time.time() - path.stat().st_mtime
    if path.name.endswith(".work"):
        idle = time.time() - _touched(path)
        lock = home.locks / f"{path.parent.name}-{path.name.partition('.')[0]}.lock"
        return "unfinished, untouched for a week" if idle > _IDLE_S and holder(lock) is None else None
    if path.name.endswith(".accepted.json"):
        data = read_json(path) or {}
        kept = home.output(path.parent.name, str(data.get("output", "")))
        return None if kept.is_dir() else "accepted result is gone"
    if _KEY.match(path.name) and path.name not in used and age > _YOUNG_S:
        manifest = read(path)
        return f"not used by a kept run (made by {manifest.run})" if manifest else "no readable manifest"
    return None


def _touched(work: Path) -> float:
    """When the attempt last did something."""
    times = [work.stat().st_mtime]
    for path in (Work(work).metrics, Work(work).log, work / "progress.json", work / "attempt.json"):
        if path.exists():
            times.append(path.stat().st_mtime)
    return max(times)


def _size(path: Path) -> int:
    return sum(item.lstat().st_size for item in _files(path))


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for parent, _, names in os.walk(path):
        yield from (Path(parent) / name for name in names)
