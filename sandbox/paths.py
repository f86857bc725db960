"""Opening, reading, writing, measuring and removing files that a box controls, without following it
anywhere."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from sandbox.errors import SandboxError, SandboxFileError

_OPENAT2 = 437
_NO_MAGICLINKS, _IN_ROOT = 0x02, 0x10
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_libc = ctypes.CDLL(None, use_errno=True)


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_in_root(root: int, path: str, flags: int, mode: int = 0) -> int:
    """A descriptor of `path`, every link and `..` resolved as if the folder `root` were the top of the file
    system."""
    how = _OpenHow(flags | os.O_CLOEXEC, mode, _IN_ROOT | _NO_MAGICLINKS)
    fd = int(_libc.syscall(_OPENAT2, root, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how)))
    if fd < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), path)
    return fd


@contextlib.contextmanager
def as_box_user(uid: int | None) -> Iterator[None]:
    """This thread touches files as `uid` (None: as it is), so the kernel checks what the box's user may
    do."""
    if uid is None:
        yield
        return
    _libc.setfsgid(uid)
    _libc.setfsuid(uid)
    try:
        yield
    finally:
        _libc.setfsuid(os.geteuid())
        _libc.setfsgid(os.getegid())


@contextlib.contextmanager
def _file_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SandboxFileError(f"{path}: {error.strerror}", code=error.errno or errno.EIO) from error


def _require_regular(fd: int, path: str) -> None:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)


def read_in_root(root: int, path: str, max_bytes: int) -> bytes:
    """The first `max_bytes` bytes of a regular file of the box."""
    with _file_errors(path):
        fd = open_in_root(root, path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        with os.fdopen(fd, "rb") as file:
            _require_regular(file.fileno(), path)
            return file.read(max_bytes)


def write_in_root(root: int, path: str, data: bytes) -> None:
    """Put `data` at `path`, making folders as needed; only a regular file is ever written."""
    with _file_errors(path):
        _make_folders(root, PurePosixPath(path).parent)
        fd = open_in_root(root, path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY, 0o644)
        with os.fdopen(fd, "wb") as file:
            _require_regular(file.fileno(), path)
            file.truncate()
            file.write(data)


def _make_folders(root: int, folder: PurePosixPath) -> None:
    missing: list[str] = []
    while True:
        try:
            at = open_in_root(root, str(folder), os.O_PATH | os.O_DIRECTORY)
            break
        except FileNotFoundError:
            missing.append(folder.name)
            folder = folder.parent
    try:
        for name in reversed(missing):
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=at)
            inner = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            os.close(at)
            at = inner
    finally:
        os.close(at)


def open_folder(name: str | bytes | Path, parent: int | None = None) -> int:
    """A descriptor of a folder (never through a link); one without permissions is opened up if it is ours."""
    try:
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=parent)
    except PermissionError:
        handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            mode = stat.S_IMODE(os.fstat(handle).st_mode)
            os.chmod(f"/proc/self/fd/{handle}", mode | 0o700)
            return os.open(f"/proc/self/fd/{handle}", _FOLDER)
        finally:
            os.close(handle)


def used_bytes(folder: Path) -> int:
    """Disk space below a folder of a running box, 1 KiB an entry included.

    Holds one descriptor at any depth. Where folders are moved under us the walk ends early; the next one
    sees more.
    """
    total, fd = 0, -1
    levels: list[
        tuple[int, list[str]]
    ] = []  # the inode of every folder we are in, and its folders still to visit
    try:
        fd = open_folder(folder)
        while True:
            size, names = _measure(fd)
            total += size
            levels.append((os.fstat(fd).st_ino, names))
            while levels and not levels[-1][1]:
                levels.pop()
                if levels:
                    fd = _replace(fd, os.open("..", _FOLDER, dir_fd=fd))
                    if os.fstat(fd).st_ino != levels[-1][0]:
                        return total
            if not levels:
                return total
            fd = _replace(fd, open_folder(levels[-1][1].pop(), fd))
    except OSError:
        return total
    finally:
        if fd >= 0:
            os.close(fd)


def _replace(old: int, new: int) -> int:
    os.close(old)
    return new


def _measure(fd: int) -> tuple[int, list[str]]:
    """The size of a folder's own entries and the names of its folders."""
    size, folders = 0, []
    with os.scandir(fd) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                size += entry.stat(follow_symlinks=False).st_blocks * 512 + 1024
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
    return size, folders


def remove_tree(folder: Path) -> None:
    """Remove a dead box's folder whatever it holds: any depth, no permissions, links (never followed)."""
    try:
        fd = open_folder(folder)
    except FileNotFoundError:
        return
    inner: list[tuple[str, list[str]]] = []  # the folders we are in and what is left to do in each
    todo = _unlink_files(fd)
    while True:
        if todo:
            name = todo.pop()
            inside = open_folder(name, fd)
            os.close(fd)
            inner.append((name, todo))
            fd, todo = inside, _unlink_files(inside)
        elif inner:
            outside = os.open("..", _FOLDER, dir_fd=fd)
            os.close(fd)
            name, todo = inner.pop()
            fd = outside
            os.rmdir(name, dir_fd=fd)
        else:
            os.close(fd)
            folder.rmdir()
            return


def _unlink_files(fd: int) -> list[str]:
    """The folders that are left in `fd` after everything else in it was unlinked."""
    with contextlib.suppress(PermissionError):
        if not os.fstat(fd).st_mode & stat.S_IWUSR:
            os.fchmod(fd, 0o700)
    folders = []
    with os.scandir(fd) as entries:
        names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in names:
        if is_folder:
            folders.append(name)
        else:
            os.unlink(name, dir_fd=fd)
    return folders


def require_absolute(path: str) -> None:
    """Refuse a path that is not absolute or holds a NUL byte."""
    if not path.startswith("/") or "\0" in path:
        raise SandboxError(f"{path!r} is not an absolute path in the box")
