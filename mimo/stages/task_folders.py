"""What a user's task folders hold, as one digest: once they change, a result made of them is out of date."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

_CACHES = {"__pycache__", ".pytest_cache"}


def folder_digest(root: Path) -> str | None:
    """16 digits of sha256 over names, kinds, executable bits and contents below `root`; None: no folder.

    Caches of Python and pytest do not count: running a task's tests in place changes no task.
    """
    if not root.is_dir():
        return None
    digest = hashlib.sha256()
    for path in _files(root):
        digest.update(f"{path.relative_to(root).as_posix()}\0".encode(errors="surrogateescape"))
        digest.update(_content(path))
    return digest.hexdigest()[:16]


def _files(root: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in _CACHES)
        links = [name for name in folders if (Path(parent) / name).is_symlink()]
        yield from (Path(parent) / name for name in sorted([*names, *links]))


def _content(path: Path) -> bytes:
    if path.is_symlink():
        return b"link\0" + os.fsencode(path.readlink())
    if not path.is_file():
        return b"other\0"
    with open(path, "rb") as file:
        content = hashlib.file_digest(file, "sha256").digest()
    return (b"program\0" if os.access(path, os.X_OK) else b"file\0") + content
