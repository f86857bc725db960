"""What a kill leaves in a home: temporary files, and folders of attempts that were published already."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from mimo.errors import Busy
from mimo.run_dir.attempt import Work
from mimo.run_dir.home import Home
from mimo.run_dir.locks import KernelLock
from mimo.run_dir.outputs import LITTER


def sweep_home(home: Home) -> list[str]:
    """Remove what dead processes left; the names. Files of living writers and locked attempts stay."""
    gone = []
    for path in _litter(home):
        path.unlink(missing_ok=True)
        gone.append(path.name)
    for folder in sorted(home.store.glob("*/*.work")):
        if _published(home, folder) and _remove(home, folder):
            gone.append(folder.name)
    return gone


def _litter(home: Home) -> Iterator[Path]:
    for folder in (home.cache, *home.runs.glob("*"), *home.store.glob("*")):
        for path in folder.glob(".*"):
            match = LITTER.match(path.name)
            if match and not Path(f"/proc/{match[1]}").exists():
                yield path


def _published(home: Home, folder: Path) -> bool:
    """True when the output was renamed to its place and a kill came before the folder was removed."""
    attempt = Work(folder).attempt()
    return (
        attempt is not None
        and not (folder / "out").exists()
        and home.output(attempt.stage, attempt.key).exists()
    )


def _remove(home: Home, folder: Path) -> bool:
    try:
        with KernelLock(home.stage_lock(folder.parent.name, folder.name), folder.name):
            if not (folder / "out").exists():
                shutil.rmtree(folder)
                return True
    except Busy:
        return False
    return False
