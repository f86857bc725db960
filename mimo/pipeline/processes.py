"""Process trees: sub-reaping, finding what a stage left, ending it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence

import psutil

from mimo.backends.process_tree import is_guard

LABEL = "MIMO_STAGE_LABEL"
"""In the environment of a stage's process; its descendants inherit it, whatever session they make."""
_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """Orphans below this process become its children instead of init's, so that they can be found."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def stage_leftovers(session: int, label: str) -> list[psutil.Process]:
    """Living descendants of this process that a stage started: by its session, or its label."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error, ProcessLookupError, PermissionError):
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            if os.getsid(process.pid) == session or process.environ().get(LABEL) == label:
                found.append(process)
    return found


def end_leftovers(session: int, label: str, *, grace_s: float) -> list[str]:
    """End what a finished stage left and wait until it is gone.

    A guardian ends its engine itself when its owner is gone, so while there is one it gets `grace_s`.

    Returns:
        The names of the processes that had to be killed.
    """
    _wait_until(lambda: not any(is_guard(item.pid) for item in stage_leftovers(session, label)), grace_s)
    killed: dict[int, str] = {}
    for _ in range(50):
        left = stage_leftovers(session, label)
        if not left:
            break
        for process in left:
            with contextlib.suppress(psutil.Error):
                killed.setdefault(process.pid, process.name())
                process.kill()
        time.sleep(0.05)
    reap(killed)
    _reap_session(session)
    return list(killed.values())


def kill_descendants() -> None:
    """SIGKILL every process below this one, until none is left; then this process's own group.

    Guardians and what they guard are spared: they end it, shared memory included, once this process is gone.
    """
    for _ in range(20):
        living = [process for process in _unguarded(psutil.Process()) if _alive(process)]
        if not living:
            break
        for process in living:
            with contextlib.suppress(psutil.Error):
                process.kill()
        time.sleep(0.01)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def reap(pids: Sequence[int] | dict[int, str]) -> None:
    """Collect the exit status of killed orphans that became our children."""
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def _reap_session(session: int) -> None:
    """Collect zombies of the stage's session that were handed to us."""
    for process in psutil.Process().children():
        with contextlib.suppress(psutil.Error, ProcessLookupError, ChildProcessError):
            if process.status() == psutil.STATUS_ZOMBIE and os.getsid(process.pid) == session:
                os.waitpid(process.pid, os.WNOHANG)


def _unguarded(process: psutil.Process) -> Iterator[psutil.Process]:
    """Every process below, without guardians and what is below them."""
    with contextlib.suppress(psutil.Error):
        for child in process.children():
            if not is_guard(child.pid):
                yield child
                yield from _unguarded(child)


def _alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


def _wait_until(done: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not done() and time.monotonic() < deadline:
        time.sleep(0.05)
