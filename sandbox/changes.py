"""What a dead box changed, read as data: no git, no link followed, everything bounded."""

from __future__ import annotations

import contextlib
import os
import posixpath
import stat
from collections.abc import Iterator
from pathlib import Path

from sandbox.base import Changes, FileChange
from sandbox.paths import open_folder

LEFT_OUT = b".git"
"""At the top of the tree: history is not part of a patch."""
MOST_DEPTH = 100
_MOST_ENTRIES = 1_000_000
_OPAQUE = ("trusted.overlay.opaque", "user.overlay.opaque")
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Collector:
    """Changes found so far, under the caps; reading stops being possible once they are used up."""

    capped: bool
    """Whether a cap left something out."""

    def __init__(self, max_files: int, max_bytes: int) -> None:
        self._files: dict[str, FileChange] = {}
        self._max_files = max_files
        self._bytes_left = max_bytes
        self._entries_left = _MOST_ENTRIES
        self.capped = False

    def visit(self) -> bool:
        """Count one directory entry; False when there are absurdly many."""
        self._entries_left -= 1
        self.capped = self.capped or self._entries_left < 0
        return self._entries_left >= 0

    def add(self, path: bytes, data: bytes | None, mode: int | None, refused: str | None = None) -> None:
        """One change; a later one of the same path takes its place."""
        if len(self._files) >= self._max_files:
            self.capped = True
            return
        name = os.fsdecode(path)
        self._files[name] = FileChange(path=name, data=data, mode=mode, refused=refused)

    def affords(self, size: int) -> bool:
        """Whether that many bytes would still be carried."""
        return size == 0 or (size <= self._bytes_left and len(self._files) < self._max_files)

    def may_read(self, size: int) -> bool:
        """Take that many bytes of the budget; False, and capped, if it has not as many."""
        if size > self._bytes_left or len(self._files) >= self._max_files:
            self.capped = True
            return False
        self._bytes_left -= size
        return True

    def result(self) -> Changes:
        """All changes, sorted."""
        return Changes(files=tuple(self._files[name] for name in sorted(self._files)), capped=self.capped)


def overlay_changes(upper: Path, lower: Path, max_files: int, max_bytes: int) -> Changes:
    """The changes that an overlay's upper folder holds over `lower`; the box must be dead."""
    found = Collector(max_files, max_bytes)
    with _opened(upper) as upper_fd, _opened(lower) as lower_fd:
        _overlay_level(found, upper_fd, lower_fd, b"", 0)
    return found.result()


def tree_changes(tree: Path, lower: Path, max_files: int, max_bytes: int) -> Changes:
    """The changes of a whole tree against `lower`; the box must be dead."""
    found = Collector(max_files, max_bytes)
    with _opened(tree) as tree_fd, _opened(lower) as lower_fd:
        _tree_level(found, tree_fd, lower_fd, b"", 0)
    return found.result()


@contextlib.contextmanager
def _opened(name: bytes | Path, parent: int | None = None) -> Iterator[int]:
    fd = open_folder(name, parent)
    try:
        yield fd
    finally:
        os.close(fd)


@contextlib.contextmanager
def _lower_folder(parent: int | None, name: bytes) -> Iterator[int | None]:
    """The folder `name` of the snapshot, None if it has none there."""
    facts = _facts(parent, name)
    if facts is None or not stat.S_ISDIR(facts.st_mode):
        yield None
        return
    with _opened(name, parent) as fd:
        yield fd


def _facts(folder: int | None, name: bytes) -> os.stat_result | None:
    if folder is None:
        return None
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _names(folder: int | None) -> list[bytes]:
    return [] if folder is None else sorted(os.fsencode(name) for name in os.listdir(folder))


def _is_opaque(folder: int) -> bool:
    for attribute in _OPAQUE:
        with contextlib.suppress(OSError):
            return os.getxattr(folder, attribute) == b"y"
    return False


def _overlay_level(found: Collector, upper: int, lower: int | None, at: bytes, depth: int) -> None:
    written = _names(upper)
    if _is_opaque(upper):
        for name in set(_names(lower)) - set(written):
            _deleted(found, lower, name, at)
    for name in written:
        if (not at and name == LEFT_OUT) or not found.visit():
            continue
        path = at + name
        facts = os.stat(name, dir_fd=upper, follow_symlinks=False)
        if stat.S_ISCHR(facts.st_mode) and facts.st_rdev == 0:  # a whiteout
            _deleted(found, lower, name, at)
        elif stat.S_ISDIR(facts.st_mode):
            _replaced_by_folder(found, lower, name, path)
            if depth >= MOST_DEPTH:
                found.add(path, None, None, "folders nested too deep")
                continue
            with _opened(name, upper) as inner, _lower_folder(lower, name) as below:
                _overlay_level(found, inner, below, path + b"/", depth + 1)
        else:
            _file(found, upper, lower, name, path, facts)


def _tree_level(found: Collector, tree: int, lower: int | None, at: bytes, depth: int) -> None:
    present = _names(tree)
    for name in set(_names(lower)) - set(present):
        if at or name != LEFT_OUT:
            _deleted(found, lower, name, at)
    for name in present:
        if (not at and name == LEFT_OUT) or not found.visit():
            continue
        path = at + name
        facts = os.stat(name, dir_fd=tree, follow_symlinks=False)
        if not stat.S_ISDIR(facts.st_mode):
            _file(found, tree, lower, name, path, facts)
            continue
        _replaced_by_folder(found, lower, name, path)
        if depth >= MOST_DEPTH:
            found.add(path, None, None, "folders nested too deep")
            continue
        with _opened(name, tree) as inner, _lower_folder(lower, name) as below:
            _tree_level(found, inner, below, path + b"/", depth + 1)


def _replaced_by_folder(found: Collector, lower: int | None, name: bytes, path: bytes) -> None:
    facts = _facts(lower, name)
    if facts is not None and not stat.S_ISDIR(facts.st_mode):
        found.add(path, None, None)


def _deleted(found: Collector, lower: int | None, name: bytes, at: bytes) -> None:
    """Report every file of the snapshot below `name` as deleted."""
    facts = _facts(lower, name)
    if facts is None:
        return
    if not stat.S_ISDIR(facts.st_mode):
        found.add(at + name, None, None)
        return
    with _opened(name, lower) as folder:
        for inner in _names(folder):
            _deleted(found, folder, inner, at + name + b"/")


def _file(
    found: Collector, folder: int, lower: int | None, name: bytes, path: bytes, facts: os.stat_result
) -> None:
    below = _facts(lower, name)
    if below is not None and stat.S_ISDIR(below.st_mode):
        _deleted(found, lower, name, path[: -len(name)])
    if stat.S_ISLNK(facts.st_mode):
        _link(found, folder, lower, name, path, below)
    elif stat.S_ISREG(facts.st_mode):
        _regular(found, folder, lower, name, path, facts, below)
    else:
        kind = (
            "fifo" if stat.S_ISFIFO(facts.st_mode) else "socket" if stat.S_ISSOCK(facts.st_mode) else "device"
        )
        found.add(path, None, None, kind)


def _link(
    found: Collector, folder: int, lower: int | None, name: bytes, path: bytes, below: os.stat_result | None
) -> None:
    target = os.readlink(name, dir_fd=folder)
    if below is not None and stat.S_ISLNK(below.st_mode) and os.readlink(name, dir_fd=lower) == target:
        return
    refusal = link_refusal(path, target)
    if refusal:
        found.add(path, None, None, refusal)
    else:
        found.add(path, target, stat.S_IFLNK)


def link_refusal(path: bytes, target: bytes) -> str | None:
    """Why a link at `path` of the tree cannot be carried; None if it stays inside."""
    resolved = posixpath.normpath(posixpath.join(b"/" + posixpath.dirname(path), target))
    if target.startswith(b"/") or _climbs(posixpath.dirname(path), target):
        return "link out of the tree"
    return "link into .git" if resolved.split(b"/")[1:2] == [LEFT_OUT] else None


def file_mode(mode: int) -> int:
    """The mode a change carries: executable by its owner or not."""
    return 0o755 if mode & stat.S_IXUSR else 0o644


def _climbs(folder: bytes, target: bytes) -> bool:
    """Whether a relative link target goes above the top of the tree at any point."""
    depth = len([part for part in folder.split(b"/") if part])
    for part in target.split(b"/"):
        depth += -1 if part == b".." else 1 if part not in (b"", b".") else 0
        if depth < 0:
            return True
    return False


def _regular(
    found: Collector,
    folder: int,
    lower: int | None,
    name: bytes,
    path: bytes,
    facts: os.stat_result,
    below: os.stat_result | None,
) -> None:
    mode = file_mode(facts.st_mode)
    if facts.st_size > 0 and not found.may_read(facts.st_size):
        found.add(path, None, None, "too large")
        return
    data = _read(folder, name, facts.st_size)
    same_kind = below is not None and stat.S_ISREG(below.st_mode)
    same_kind = same_kind and below is not None and mode == file_mode(below.st_mode)
    same_size = same_kind and below is not None and below.st_size == len(data)
    if same_size and lower is not None and _read(lower, name, len(data)) == data:
        found.may_read(-len(data))  # equal to the snapshot: gives its bytes back
        return
    found.add(path, data, mode)


def _read(folder: int, name: bytes, size: int) -> bytes:
    try:
        fd = os.open(name, _FILE, dir_fd=folder)
    except PermissionError:
        handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.chmod(f"/proc/self/fd/{handle}", 0o600)
            fd = os.open(f"/proc/self/fd/{handle}", _FILE & ~os.O_NOFOLLOW)
        finally:
            os.close(handle)
    with os.fdopen(fd, "rb") as file:
        return file.read(size)
