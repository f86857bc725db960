"""The processes of a `local` box: bubblewrap, its process 1, the supervising bash and everything below."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Mapping, Sequence

from sandbox.errors import SandboxError, SandboxLost, SandboxUnavailable
from sandbox.launch import LaunchFailed, launch
from sandbox.procs import all_processes, descendants, kill_process, only_child, read_process
from sandbox.shell import Shell

_READY_S = 20.0
_KILL_S = 0.5
_STOP_MS = 10_000
_USERNS_HINT = "allow unprivileged user namespaces, or run as root with CAP_SYS_ADMIN; see docs/sandbox.md"


class BoxProcess:
    """A started box. `init` and `init_start` are its process 1 on the host, `root` a handle on its file
    system."""

    def __init__(self, request: Mapping[str, object], arguments: Sequence[str], folder: str) -> None:
        """Start it; `folder` is where its shell shall stand.

        Raises:
            SandboxUnavailable: this user may not make namespaces.
            LaunchFailed: another step before bubblewrap failed, "overlay" for instance.
            SandboxError: bubblewrap or the shell did not start.
        """
        try:
            self._launched = launch(request, arguments)
        except LaunchFailed as failure:
            if failure.step == "unshare":
                raise SandboxUnavailable(str(failure), hint=_USERNS_HINT) from failure
            raise
        self.shell = Shell(self._launched.commands, self._launched.output, self._launched.status, folder)
        self._handles = [self._launched.init_handle, self._launched.handle]
        self._killing = threading.Lock()
        try:
            self._look_inside()
        except BaseException:
            self.stop()
            self.let_go()
            raise

    def _look_inside(self) -> None:
        said = self.shell.wait_ready(_READY_S)
        init = read_process(self._launched.init)
        if said or init is None:
            raise SandboxError(f"the box did not start: {said or 'it died'}", hint="run `mimo doctor`")
        self.init, self.init_start = init.pid, init.start
        self._supervisor = only_child(init.pid)
        self._supervisor_handle = os.pidfd_open(self._supervisor)
        self._handles.append(self._supervisor_handle)
        self.root = os.open(f"/proc/{init.pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._handles.append(self.root)

    @property
    def is_broken(self) -> bool:
        """Whether process 1 or the supervising bash has ended: killed from inside, or by a limit."""
        poll = select.poll()
        poll.register(self._launched.init_handle, select.POLLIN)
        poll.register(self._supervisor_handle, select.POLLIN)
        return bool(poll.poll(0))

    def kill(self) -> None:
        """SIGKILL to process 1; the kernel kills all others. Does not wait."""
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self._launched.init_handle, signal.SIGKILL)

    def stop(self) -> None:
        """Kill process 1 of the box and wait until the kernel has killed all others and bubblewrap has
        gone."""
        self.kill()
        for handle in (self._launched.init_handle, self._launched.handle):
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            if not poll.poll(_STOP_MS):
                raise SandboxLost("a process of the box does not die", hint="look for processes in state D")

    def let_go(self) -> None:
        """Close all handles on the stopped box."""
        self.shell.close()
        for fd in self._handles:
            os.close(fd)
        self._handles.clear()

    def kill_command(self, since: int) -> None:
        """Kill the shell and every process that started at tick `since` or later; the whole box if that
        fails."""
        with self._killing:
            deadline = time.monotonic() + _KILL_S
            while time.monotonic() < deadline:
                victims = [
                    process
                    for process in descendants(self.init, all_processes())
                    if process.state != "Z"
                    and process.pid != self._supervisor
                    and (process.start >= since or process.parent == self._supervisor)
                ]
                if not victims:
                    return
                for process in victims:
                    kill_process(process)
                time.sleep(0.002)
            self.kill()
