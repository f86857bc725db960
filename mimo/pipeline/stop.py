"""`mimo stop`: ask the process that runs a recipe to stop at the next safe point, and wait for it."""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import suppress

from mimo.errors import Busy, MimoError
from mimo.pipeline.project import Project
from mimo.run_dir.locks import holder


def stop(project: Project, *, timeout_s: float | None = None, pause_s: float = 0.1) -> int | None:
    """The process that was stopped, once it is gone; None when the recipe is not running.

    Raises:
        MimoError: it runs on another host, or is not ours to signal.
        Busy: it did not end within `timeout_s`.
    """
    held = holder(project.lock)
    if held is None:
        return None
    pid = held["pid"]
    if held["host"] != socket.gethostname() or not isinstance(pid, int):
        raise MimoError(f"the recipe runs as process {pid} on {held['host']}", hint="stop it there")
    try:
        os.kill(pid, signal.SIGTERM)
    except PermissionError as error:
        raise MimoError(f"process {pid} belongs to another user", hint="stop it as that user") from error
    except ProcessLookupError:
        return pid
    deadline = time.monotonic() + timeout_s if timeout_s is not None else None
    while holder(project.lock) is not None:
        if deadline is not None and time.monotonic() > deadline:
            raise Busy(
                f"process {pid} was asked to stop and is still at its step after {timeout_s:g} s",
                hint=f"wait for it, or send it a second signal: kill {pid}",
            )
        with suppress(InterruptedError):
            time.sleep(pause_s)
    return pid
