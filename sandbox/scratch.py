"""Where our temporary folders go: the system's place, or one that a killed process's owner removes."""

from __future__ import annotations

from pathlib import Path

_parent: Path | None = None


def keep_temporary_in(folder: Path | None) -> None:
    """From now on this process keeps temporary folders in `folder` (made here); None = the system's place.

    Nothing removes a temporary folder of a process that got SIGKILL: so it belongs where somebody cleans up.
    """
    global _parent
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    _parent = folder


def temporary_parent() -> Path | None:
    """What to give `tempfile` as `dir`."""
    return _parent
