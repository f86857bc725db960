"""Archives that go into images and containers: owners, modes and times are set, not copied."""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from docker import APIClient

from sandbox.errors import SandboxError
from sandbox.snapshot import MTIME


def add_path(tar: tarfile.TarFile, path: Path, place: str, uid: int) -> None:
    """One entry, owned by `uid`, its mode reduced to what may be told: 0755 or 0644."""
    entry = tar.gettarinfo(path, place)
    if entry.islnk():
        entry.type, entry.linkname, entry.size = tarfile.REGTYPE, "", path.lstat().st_size
    if not (entry.isreg() or entry.isdir() or entry.issym()):
        raise SandboxError(f"{path} is neither file, folder nor link", hint="remove it from the tree")
    entry.uid = entry.gid = uid
    entry.uname = entry.gname = ""
    entry.mtime = MTIME
    entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
    if not entry.isreg():
        tar.addfile(entry)
        return
    with open(path, "rb") as file:
        tar.addfile(entry, file)


def add_file(tar: tarfile.TarFile, place: str, data: bytes, mode: int) -> None:
    """A file of root's with the given content."""
    entry = tarfile.TarInfo(place)
    entry.size, entry.mode, entry.mtime = len(data), mode, MTIME
    tar.addfile(entry, io.BytesIO(data))


def add_folder(tar: tarfile.TarFile, place: str, uid: int, mode: int = 0o755) -> None:
    """A folder and, owned by root, those above it."""
    path = PurePosixPath(place.strip("/"))
    for folder in [*reversed(path.parents[:-1]), path]:
        entry = tarfile.TarInfo(folder.as_posix())
        entry.type, entry.mode, entry.mtime = tarfile.DIRTYPE, mode if folder == path else 0o755, MTIME
        entry.uid = entry.gid = uid if folder == path else 0
        tar.addfile(entry)


def add_tree(tar: tarfile.TarFile, tree: Path, place: str, uid: int) -> None:
    """`tree` at the absolute path `place` of a box, owned by `uid`."""
    add_folder(tar, place, uid)
    for folder, folders, files in os.walk(tree):
        folders.sort()
        for name in sorted((*folders, *files)):
            path = Path(folder, name)
            add_path(tar, path, f"{place.strip('/')}/{path.relative_to(tree).as_posix()}", uid)


@contextlib.contextmanager
def tar_file(fill: Callable[[tarfile.TarFile], None]) -> Iterator[IO[bytes]]:
    """A temporary file that holds the archive; names that are not UTF-8 keep their bytes."""
    with tempfile.TemporaryFile(prefix="mimo-tar-") as file:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT, encoding="utf-8") as tar:
            fill(tar)
        file.seek(0)
        yield file


def upload(client: APIClient, container: str, fill: Callable[[tarfile.TarFile], None]) -> None:
    """Put what `fill` adds into a container that has not been started."""
    with tar_file(fill) as file:
        client.put_archive(container, "/", file)
