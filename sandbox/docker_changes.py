"""What a dead container changed, read as data from the daemon's archive of its work folder."""

from __future__ import annotations

import os
import stat
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from sandbox.base import Changes
from sandbox.changes import LEFT_OUT, MOST_DEPTH, Collector, file_mode, link_refusal

_PIECE = 1 << 20
_INIT = ("/sbin/docker-init", "/usr/sbin/docker-init")
"""Where the daemon puts the program of the box's process 1."""
_DELETED = 2
"""The daemon's number for a path that is gone."""


class _Pieces:
    """The daemon's pieces as a file that can be read."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._left = b""

    def read(self, size: int) -> bytes:
        while len(self._left) < size:
            piece = next(self._pieces, b"")
            if not piece:
                break
            self._left += piece
        data, self._left = self._left[:size], self._left[size:]
        return data


def archive_changes(
    pieces: Iterator[bytes], snapshot: Path, special: Iterable[bytes], max_files: int, max_bytes: int
) -> Changes:
    """The changes of an archived work folder against `snapshot`.

    Args:
        pieces: a tar whose first entry is the folder itself.
        special: paths below it that the daemon lists as written; an archive leaves sockets out.
    """
    compared = _Compared(snapshot, max_files, max_bytes)
    source: Any = _Pieces(pieces)
    with tarfile.open(fileobj=source, mode="r|", bufsize=_PIECE) as tar:
        for entry in tar:
            compared.take(tar, entry)
    return compared.result(special)


class _Compared:
    """The archive's entries against the snapshot's, as they come."""

    def __init__(self, snapshot: Path, max_files: int, max_bytes: int) -> None:
        self._found = Collector(max_files, max_bytes)
        self._snapshot = os.fsencode(snapshot)
        self._below = dict(_entries(self._snapshot))
        self._kept: dict[bytes, bytes | None] = {}
        self._present: set[bytes] = set()
        self._folders: set[bytes] = set()

    def take(self, tar: tarfile.TarFile, entry: tarfile.TarInfo) -> None:
        """One entry of the archive."""
        path = _relative(entry.name)
        if not path or _is_left_out(path) or not self._found.visit():
            return
        depth = path.count(b"/")
        (self._folders if entry.isdir() else self._present).add(path)
        if depth > MOST_DEPTH:
            return
        if entry.isdir():
            if depth == MOST_DEPTH:
                self._found.add(path, None, None, "folders nested too deep")
            return
        if entry.issym():
            self._link(path, os.fsencode(entry.linkname))
        elif entry.islnk():
            self._again(path, _relative(entry.linkname), entry.mode)
        elif entry.isreg():
            file = tar.extractfile(entry)
            assert file is not None
            self._regular(path, entry, file)
        else:
            self._found.add(path, None, None, "fifo" if entry.isfifo() else "device")

    def _link(self, path: bytes, target: bytes) -> None:
        below = self._below.get(path)
        was_link = below is not None and stat.S_ISLNK(below.st_mode)
        if was_link and os.readlink(self._snapshot + b"/" + path) == target:
            return
        refusal = link_refusal(path, target)
        if refusal:
            self._found.add(path, None, None, refusal)
        else:
            self._found.add(path, target, stat.S_IFLNK)

    def _regular(self, path: bytes, entry: tarfile.TarInfo, file: IO[bytes]) -> None:
        below = self._below.get(path)
        mode = file_mode(entry.mode)
        same = below is not None and stat.S_ISREG(below.st_mode) and below.st_size == entry.size
        affordable = self._found.affords(entry.size)
        old = open(self._snapshot + b"/" + path, "rb") if same else None  # noqa: SIM115 - closed below
        kept: list[bytes] = []
        try:
            while piece := file.read(_PIECE):
                if old is not None and old.read(len(piece)) != piece:
                    same = False
                if affordable:
                    kept.append(piece)
        finally:
            if old is not None:
                old.close()
        if same and below is not None and file_mode(below.st_mode) == mode:
            return
        self._add(path, b"".join(kept) if affordable else None, mode)

    def _add(self, path: bytes, data: bytes | None, mode: int) -> None:
        if data is None or (data and not self._found.may_read(len(data))):
            self._found.capped = True
            self._kept[path] = None
            self._found.add(path, None, None, "too large")
            return
        self._kept[path] = data
        self._found.add(path, data, mode)

    def _again(self, path: bytes, first: bytes, mode: int) -> None:
        """Another name of a file that came before."""
        data = self._kept.get(first)
        if first not in self._kept and first in self._below:  # unchanged: the snapshot has it
            affordable = self._found.affords(self._below[first].st_size)
            data = _content(self._snapshot + b"/" + first) if affordable else None
        below = self._below.get(path)
        if data is not None and below is not None and stat.S_ISREG(below.st_mode):
            unchanged = file_mode(below.st_mode) == file_mode(mode) and below.st_size == len(data)
            if unchanged and _content(self._snapshot + b"/" + path) == data:
                return
        self._add(path, data, file_mode(mode))

    def result(self, special: Iterable[bytes]) -> Changes:
        """All that was found, with what is missing from the archive."""
        sockets = {
            path
            for path in special
            if path not in self._present and path not in self._folders and not _is_left_out(path)
        }
        for path in sorted(sockets):
            self._found.add(path, None, None, "socket")
        for path, facts in self._below.items():
            is_file = not stat.S_ISDIR(facts.st_mode)
            if is_file and path not in self._present and path not in sockets and not _is_left_out(path):
                self._found.add(path, None, None)
        return self._found.result()


def _relative(name: str) -> bytes:
    """The path below the archived folder; empty for the folder itself."""
    return os.fsencode(name).partition(b"/")[2].rstrip(b"/")


def _is_left_out(path: bytes) -> bool:
    return path.split(b"/", 1)[0] == LEFT_OUT


def _content(path: bytes) -> bytes | None:
    """A file of the snapshot, whose names come from the archive: only what was found below it is opened."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def _entries(top: bytes) -> Iterator[tuple[bytes, os.stat_result]]:
    """Every path below a snapshot with its facts; links are not followed."""
    queue = [top]
    while queue:
        with os.scandir(queue.pop()) as entries:
            for entry in entries:
                facts = entry.stat(follow_symlinks=False)
                yield entry.path[len(top) + 1 :], facts
                if stat.S_ISDIR(facts.st_mode):
                    queue.append(entry.path)


def written_paths(
    listed: Iterable[Mapping[str, Any]] | None, workdir: str, brought: Iterable[str]
) -> tuple[list[bytes], list[str]]:
    """Of the daemon's list of changes: new or changed paths below the work folder, and paths outside it.

    Args:
        brought: folders that we put there; they, and folders above either, are not the box's doing.
    """
    inside, outside = [], []
    ours = [folder.rstrip("/") + "/" for folder in (workdir, *brought, *_INIT)]
    for change in listed or ():
        path, kind = str(change["Path"]), int(change["Kind"])
        if path.startswith(ours[0]):
            if kind != _DELETED:
                inside.append(os.fsencode(path[len(ours[0]) :]))
        elif not any(path.startswith(top) or top.startswith(path.rstrip("/") + "/") for top in ours):
            outside.append(path)
    return inside, outside
