"""Published outputs of stages: found, checked, published by one rename, set aside, swept."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mimo.run_dir import manifest as manifests
from mimo.run_dir.files import disk_full_is_clear, fsync_folder, read_json, write_json
from mimo.run_dir.home import Home
from mimo.run_dir.manifest import Manifest

LITTER = re.compile(r"^\..+\.(\d+)\.(tmp|part)$")
"""Temporary files of `write_atomic`; the number is the writer's process."""
_KEY = re.compile(r"^[0-9a-f]{16}$")
_FICLONE = 0x40049409


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """An output folder and its manifest; `problems` is empty when every file is as it was published."""

    folder: Path
    manifest: Manifest
    problems: tuple[str, ...] = ()


def find(home: Home, stage: str, key: str) -> Published | None:
    """The output of exactly this key, checked; None when there is none.

    A folder without a readable manifest is None too: ask `unreadable`.
    """
    folder = home.output(stage, key)
    manifest = manifests.read(folder)
    if manifest is None:
        return None
    return Published(folder=folder, manifest=manifest, problems=tuple(manifests.problems(folder, manifest)))


def unreadable(home: Home, stage: str, key: str) -> bool:
    """True when the folder of this key exists but its manifest is missing or torn."""
    folder = home.output(stage, key)
    return folder.is_dir() and manifests.read(folder) is None


def every(home: Home, stage: str) -> list[Published]:
    """All outputs of a stage with a readable manifest, newest first (files are not checked)."""
    found = []
    for folder in _folders(home.outputs(stage)):
        manifest = manifests.read(folder) if _KEY.match(folder.name) else None
        if manifest is not None:
            found.append(Published(folder=folder, manifest=manifest))
    return sorted(found, key=lambda item: item.manifest.created, reverse=True)


def accept(home: Home, stage: str, key: str, old_key: str, why: str) -> None:
    """Record that the output of `old_key` stands for `key` too."""
    write_json(
        _accepted(home, stage, key),
        {"schema": 1, "stands_for": key, "output": old_key, "why": why, "ts": time.time()},
    )


def accepted(home: Home, stage: str, key: str) -> Published | None:
    """The output that was accepted for `key`, or None."""
    data = read_json(_accepted(home, stage, key))
    return find(home, stage, str(data["output"])) if data and "output" in data else None


def publish(home: Home, work: Path, manifest: Manifest) -> Path:
    """Make `work/out` the published output of its key; an older folder there is set aside.

    Everything in it is made durable, the manifest is written last, then one rename; then `work` is removed.
    """
    out, final = work / "out", home.output(manifest.stage, manifest.key)
    with disk_full_is_clear(final):
        _fsync_tree(out)
        manifests.write(out, manifest)
        if final.exists():
            set_aside(final)
        out.rename(final)
        fsync_folder(final.parent)
    shutil.rmtree(work)
    return final


def set_aside(folder: Path) -> Path:
    """Rename a folder to `NAME.old-<time>`; `mimo gc` removes those."""
    target = folder.with_name(f"{folder.name}.old-{time.time_ns():x}")
    folder.rename(target)
    fsync_folder(folder.parent)
    return target


def copy_tree(source: Path, target: Path) -> None:
    """Copy an output's files (not its manifest, not its engine folder), sharing blocks where the disk can."""
    with disk_full_is_clear(target):
        for parent, folders, names in os.walk(source):
            here = Path(parent).relative_to(source)
            if not here.parts and manifests.ENGINE_FOLDER in folders:
                folders.remove(manifests.ENGINE_FOLDER)
            (target / here).mkdir(parents=True, exist_ok=True)
            for name in names:
                if here.parts or name != manifests.NAME:
                    _copy(Path(parent) / name, target / here / name)


def sweep_litter(folder: Path) -> int:
    """Remove temporary files that a kill left anywhere below `folder`; how many."""
    found = [
        Path(parent) / name for parent, _, names in os.walk(folder) for name in names if LITTER.match(name)
    ]
    for path in found:
        path.unlink(missing_ok=True)
    return len(found)


def _accepted(home: Home, stage: str, key: str) -> Path:
    return home.outputs(stage) / f"{key[:16]}.accepted.json"


def _folders(parent: Path) -> Iterator[Path]:
    if parent.is_dir():
        yield from (path for path in sorted(parent.iterdir()) if path.is_dir())


def _fsync_tree(folder: Path) -> None:
    for parent, _, names in os.walk(folder):
        for name in names:
            handle = os.open(Path(parent) / name, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        fsync_folder(Path(parent))


def _copy(source: Path, target: Path) -> None:
    with open(source, "rb") as reader, open(target, "wb") as writer:
        try:
            fcntl.ioctl(writer.fileno(), _FICLONE, reader.fileno())
        except OSError:  # a disk that cannot share blocks
            shutil.copyfileobj(reader, writer, 2**20)
    shutil.copymode(source, target)
