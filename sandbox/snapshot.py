"""Content-addressed snapshots of work trees: one folder per content, named by its SHA-256."""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from sandbox.errors import SandboxError
from sandbox.paths import remove_tree

BOX_UID = 60000
"""The user and group that own snapshots and boxes when we are root; nothing else should run as it."""
MTIME = 1_577_836_800
"""2020-01-01: the one time every file of a snapshot carries, so that times tell nothing."""


def _entries(tree: Path) -> Iterator[tuple[bytes, os.stat_result]]:
    """Every path below `tree` with its facts, sorted by path; links are not followed."""
    top = os.fsencode(tree)
    found: list[tuple[bytes, os.stat_result]] = []
    queue = [top]
    while queue:
        with os.scandir(queue.pop()) as entries:
            for entry in entries:
                facts = entry.stat(follow_symlinks=False)
                found.append((entry.path[len(top) + 1 :], facts))
                if stat.S_ISDIR(facts.st_mode):
                    queue.append(entry.path)
    return iter(sorted(found))


def _file_sha256(path: bytes) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _line(tree: bytes, path: bytes, facts: os.stat_result) -> bytes:
    """One entry as the digest sees it: kind, executable or not, content, path."""
    full = tree + b"/" + path
    if stat.S_ISLNK(facts.st_mode):
        kind, content = b"link", hashlib.sha256(os.readlink(full)).hexdigest()
    elif stat.S_ISDIR(facts.st_mode):
        kind, content = b"folder", ""
    elif stat.S_ISREG(facts.st_mode):
        kind, content = b"program" if facts.st_mode & 0o100 else b"file", _file_sha256(full)
    else:
        raise SandboxError(
            f"{os.fsdecode(full)} is neither file, folder nor link", hint="remove it from the tree"
        )
    return kind + b" " + content.encode() + b" " + path + b"\0"


def tree_digest(folder: Path) -> str:
    """SHA-256 over the sorted paths, kinds, executable bits and contents below `folder`; times and owners do
    not count.

    Raises:
        SandboxError: it holds a device, fifo or socket.
    """
    digest = hashlib.sha256(b"mimo tree 1\0")
    for path, facts in _entries(folder):
        digest.update(_line(os.fsencode(folder), path, facts))
    return digest.hexdigest()


def snapshot_tree(source_dir: Path, store_dir: Path) -> str:
    """The digest of `source_dir`; afterwards `store_dir/DIGEST` is a copy of it ready to be a box's lower
    layer.

    Owner, mode (0755 or 0644) and time are the same everywhere, and files are written in an order that
    follows their names' hashes: what was touched last does not show. An existing snapshot is reused.
    """
    digest = tree_digest(source_dir)
    store_dir.mkdir(parents=True, exist_ok=True)
    final = store_dir / digest
    with open(store_dir / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if final.is_dir():
            return digest
        work = store_dir / f".work-{secrets.token_hex(4)}"
        try:
            _copy(source_dir, work)
            if tree_digest(work) != digest:
                raise SandboxError(f"{source_dir} changed while it was copied", hint="try again")
            work.rename(final)
        finally:
            remove_tree(work)
    return digest


def _copy(source: Path, target: Path) -> None:
    target.mkdir(mode=0o755)
    entries = list(_entries(source))
    top, new = os.fsencode(source), os.fsencode(target)
    folders = [path for path, facts in entries if stat.S_ISDIR(facts.st_mode)]
    for path in folders:
        os.mkdir(new + b"/" + path, 0o755)
    others = [(path, facts) for path, facts in entries if not stat.S_ISDIR(facts.st_mode)]
    for path, facts in sorted(others, key=lambda item: hashlib.sha256(item[0]).digest()):
        _copy_one(top + b"/" + path, new + b"/" + path, facts)
    for path in [*reversed(folders), b"."]:
        _normalise(new + b"/" + path, 0o755)


def _copy_one(source: bytes, target: bytes, facts: os.stat_result) -> None:
    if stat.S_ISLNK(facts.st_mode):
        os.symlink(os.readlink(source), target)
        _normalise(target, None)
        return
    with open(source, "rb") as original, open(target, "xb") as copy:
        while piece := original.read(1 << 20):
            copy.write(piece)
    _normalise(target, 0o755 if facts.st_mode & 0o100 else 0o644)


def _normalise(path: bytes, mode: int | None) -> None:
    if os.geteuid() == 0:
        os.chown(path, BOX_UID, BOX_UID, follow_symlinks=False)
    if mode is not None:
        os.chmod(path, mode)
    os.utime(path, (MTIME, MTIME), follow_symlinks=False)
