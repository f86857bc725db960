"""Kernel locks (flock): they die with their holder; the body says who holds one."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from mimo.errors import Busy, MachineLacks
from mimo.run_dir.files import disk_full_is_clear, read_json
from mimo.types import Json

_TRIES = 5
_PAUSE_S = 0.02


class KernelLock:
    """`with KernelLock(path, what):` holds the lock; Busy when another process does.

    The file stays (removing it would race); its handle is not inherited, so no child keeps the lock alive.
    On a full disk the lock works, only its body stays empty: `mimo gc` must be able to free space.
    """

    def __init__(self, path: Path, what: str, *, hint: str | None = None) -> None:
        self.path = path
        self.what = what
        self.hint = hint
        self._handle: int | None = None

    def __enter__(self) -> KernelLock:
        handle = _open(self.path)
        if not _try_lock(handle, fcntl.LOCK_EX):
            os.close(handle)
            raise _busy(self.what, self.path, self.hint)
        self._handle = handle
        os.ftruncate(handle, 0)
        with suppress(MachineLacks), disk_full_is_clear(self.path):
            os.pwrite(handle, json.dumps(_body()).encode(), 0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._handle is not None:
            os.ftruncate(self._handle, 0)
            os.close(self._handle)
            self._handle = None


def holder(path: Path) -> dict[str, Json] | None:
    """Who holds the lock: {pid, host, started, command}; None when nobody does."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        if _try_lock(handle, fcntl.LOCK_SH, tries=1):
            return None
        return read_json(path) or {"pid": None, "host": None, "started": None, "command": None}
    finally:
        os.close(handle)


def _open(path: Path) -> int:
    """The lock file's handle; MachineLacks when it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise MachineLacks(
            f"cannot write the lock file {path}: {error.strerror}",
            hint="set MIMO_HOME to a folder on a local disk that you can write",
        ) from error


def _try_lock(handle: int, kind: int, *, tries: int = _TRIES) -> bool:
    """True when locked. A few tries, since `holder` takes the lock for an instant to look."""
    for attempt in range(tries):
        try:
            fcntl.flock(handle, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if attempt + 1 < tries:
                time.sleep(_PAUSE_S)
        else:
            return True
    return False


def _body() -> dict[str, Json]:
    return {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "started": time.strftime("%Y-%m-%d %H:%M:%S"),
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
    }


def _busy(what: str, path: Path, hint: str | None) -> Busy:
    body = read_json(path) or {}
    return Busy(
        f"{what} is in use by process {body.get('pid', 'unknown')} on {body.get('host', 'an unknown host')} "
        f"since {body.get('started', 'an unknown time')}",
        hint=hint or "wait for it to end, or stop it with `mimo stop`",
    )
