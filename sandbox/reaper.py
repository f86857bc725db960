"""Removes what boxes left whose owner died: processes, cgroups, containers, folders. Living owners' boxes
are not touched."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from sandbox.cgroups import remove_groups
from sandbox.errors import SandboxError
from sandbox.paths import remove_tree
from sandbox.procs import all_processes, descendants, kill_process, read_process
from sandbox.state import Owner, read_owner, state_dir

_UNBORN_S = 60.0


def reap(label_prefix: str = "", state: Path | None = None) -> list[str]:
    """The labels of the boxes that were removed; a second call finds nothing.

    Args:
        label_prefix: only boxes whose label starts so; empty takes all.
        state: the state folder; None as in `sandbox.state.state_dir`.

    Raises:
        SandboxError: a Docker daemon does not answer, so containers may be left there; all else is removed.
    """
    removed = []
    failure: SandboxError | None = None
    for folder in sorted((state_dir(state) / "boxes").iterdir()):
        owner = read_owner(folder)
        with suppress(FileNotFoundError):  # its owner, or another run's reaper, was quicker
            if owner is None:
                _remove_if_old(folder)
            elif owner.label.startswith(label_prefix) and owner.is_gone():
                try:
                    _remove(folder, owner)
                    removed.append(owner.label)
                except SandboxError as error:
                    failure = error
    if failure is not None:
        raise failure
    return removed


def left_over(label_prefix: str = "", state: Path | None = None) -> list[Path]:
    """Folders of boxes, with or without a living owner, that are there now."""
    found = []
    for folder in sorted((state_dir(state) / "boxes").iterdir()):
        owner = read_owner(folder)
        if owner is None or owner.label.startswith(label_prefix):
            found.append(folder)
    return found


def _remove(folder: Path, owner: Owner) -> None:
    if owner.container is not None and owner.host is not None:
        from sandbox.docker_host import host_at  # only where there are such boxes

        host_at(owner.host).remove(owner.container)
    init = read_process(owner.init) if owner.init is not None else None
    if init is not None and init.start == owner.init_start:
        for process in (init, *descendants(init.pid, all_processes())):
            kill_process(process)
    remove_groups([Path(path) for path in owner.cgroups])
    remove_tree(folder)


def _remove_if_old(folder: Path) -> None:
    """A folder without a record: its maker died in between, or is about to write it."""
    if time.time() - folder.lstat().st_mtime > _UNBORN_S:
        remove_tree(folder)
