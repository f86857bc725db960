"""The back end `local`: boxes made with bubblewrap, without a daemon, as root or as an ordinary user.

The box has its own root file system, process, network, IPC, host name and user namespaces, no capability, a
system-call filter and its own user. Its private writable copy of the snapshot is an overlay mounted inside the
box's mount namespace, or a plain copy where overlays are impossible. Same kernel as the host: this holds a policy
that seeks reward, not an attacker with a kernel exploit (see docs/sandbox.md).
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from sandbox.base import BoxSpec, Changes, ExecResult
from sandbox.cgroups import BoxGroup, parents, remove_groups
from sandbox.changes import overlay_changes, tree_changes
from sandbox.errors import SandboxError, SandboxLimit, SandboxLost, SandboxUnavailable
from sandbox.launch import Launched, LaunchFailed, launch
from sandbox.limits import OWN_PROCESSES, Kind, Meter, watch
from sandbox.local_setup import bwrap_arguments, launch_request, private_copy, try_overlay_again
from sandbox.paths import as_box_user, read_in_root, remove_tree, require_absolute, write_in_root
from sandbox.procs import Process, all_processes, descendants, kill_process, now_ticks, read_process
from sandbox.shell import Output, Report, Shell
from sandbox.snapshot import BOX_UID
from sandbox.state import Owner, new_box_folder, record_owner, state_dir

_READY_S = 20.0
_KILL_S = 0.5


class LocalBox:
    """One box; see `sandbox.base.Sandbox`. Safe to close from another thread."""

    def __init__(self, spec: BoxSpec) -> None:
        bwrap = shutil.which("bwrap")
        if bwrap is None:
            raise SandboxUnavailable("bubblewrap is not installed", hint="apt-get install bubblewrap")
        if not spec.snapshot.is_dir():
            raise SandboxError(f"no snapshot at {spec.snapshot}", hint="make one with sandbox.snapshot.snapshot_tree")
        self._spec = spec
        self._bwrap = bwrap
        self._uid = BOX_UID if os.geteuid() == 0 else None
        self._lock = threading.RLock()
        self._killing = threading.Lock()
        self._busy = self._frozen = self._closed = False
        self._over: Kind | None = None
        self._struck: Kind | None = None
        self._since = 0
        self._launched: Launched | None = None
        self._shell: Shell | None = None
        self._root = self._supervisor = self._supervisor_handle = -1
        self._starts = 0
        owner = Owner.of_this_process(spec.label)
        self._home = new_box_folder(state_dir(spec.state_dir), owner)
        self._group = BoxGroup(f"mimo-{self._home.name}") if parents() else None
        try:
            if self._group:
                self._owner = record_owner(
                    self._home, owner, cgroups=[str(folder) for folder in self._group.folders]
                )
                self._group.make(spec.limits.memory_mb, spec.limits.processes + OWN_PROCESSES)
            else:
                self._owner = owner
            self._start_in_some_mode()
            self._meter = Meter(
                spec.limits, self._home / ("upper" if self._mode == "overlay" else "copy"), self._group
            )
            self.needs_processes = not self._meter.counts_by_kernel
        except BaseException:
            self._closed = True
            self._take_apart()
            raise
        watch.add(self)

    # --- life -----------------------------------------------------------------------------------------------------

    def _start_in_some_mode(self) -> None:
        """Start with an overlay, with a plain copy where this file system or kernel has none."""
        self._mode = "overlay" if try_overlay_again(self._home, self._spec.snapshot, self._uid) else "copy"
        if self._mode == "overlay":
            try:
                self._start(self._spec.workdir)
                return
            except LaunchFailed as failure:
                if failure.step != "overlay":
                    raise
                try_overlay_again(self._home, self._spec.snapshot, self._uid, failed=True)
        self._mode = "copy"
        private_copy(self._spec.snapshot, self._home / "copy", self._uid)
        self._start(self._spec.workdir)

    def _start(self, folder: str) -> None:
        self._starts += 1
        cgroups = self._group.entries if self._group else []
        request = launch_request(
            self._spec, self._home, self._mode, self._uid, start=self._starts, cgroups=cgroups
        )
        request["bwrap"] = self._bwrap
        try:
            self._launched = launch(request, bwrap_arguments(self._spec))
        except LaunchFailed as failure:
            if failure.step == "unshare":
                hint = "allow unprivileged user namespaces, or run as root with CAP_SYS_ADMIN; see docs/sandbox.md"
                raise SandboxUnavailable(str(failure), hint=hint) from failure
            raise
        self._shell = Shell(self._launched.commands, self._launched.output, self._launched.status, folder)
        said = self._shell.wait_ready(_READY_S)
        if said:
            raise SandboxError(f"the box did not start: {said}", hint="run `mimo doctor`")
        init = read_process(self._launched.init)
        if init is None:
            raise SandboxLost("the box died while it started")
        self._supervisor = next(p.pid for p in descendants(init.pid, all_processes()) if p.parent == init.pid)
        self._supervisor_handle = os.pidfd_open(self._supervisor)
        self._root = os.open(f"/proc/{init.pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._owner = record_owner(self._home, self._owner, init=init.pid, init_start=init.start)

    def _stop(self) -> None:
        """Kill process 1 of the box and wait until the kernel has killed all others and bubblewrap has gone."""
        launched = self._launched
        if launched is None:
            return
        for handle in (launched.init_handle, launched.handle):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(launched.init_handle, signal.SIGKILL)
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            if not poll.poll(10_000):
                raise SandboxLost("a process of the box does not die", hint="look for processes in state D")

    def _let_go(self) -> None:
        """Close what belongs to the processes that `_stop` ended."""
        if self._launched is None:
            return
        if self._shell:
            self._shell.close()
        else:
            for fd in (self._launched.commands, self._launched.output, self._launched.status):
                os.close(fd)
        for fd in (self._launched.handle, self._launched.init_handle, self._root, self._supervisor_handle):
            if fd >= 0:
                os.close(fd)
        self._launched, self._shell = None, None
        self._root = self._supervisor_handle = -1

    def freeze(self) -> None:
        """Kill every process of the box."""
        self._frozen = True
        self._stop()
        with self._lock:
            self._let_go()

    def close(self) -> None:
        """Take the box apart; what cannot be removed now is left to the reaper."""
        self._closed = True
        watch.remove(self)
        self._take_apart()

    def _take_apart(self) -> None:
        self.freeze()
        with self._lock:
            if self._group:
                remove_groups(self._group.folders)
            remove_tree(self._home)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def describe(self) -> dict[str, str]:
        """How this box is made: `tree` overlay or copy, `limits` cgroup or watcher, `user`, `path` of its state."""
        return {
            "backend": "local",
            "tree": self._mode,
            "limits": "cgroup" if self._group else "watcher",
            "user": str(self._uid)
            if self._uid is not None
            else f"{os.geteuid()} (yours, in a user namespace)",
            "path": str(self._home),
        }

    # --- commands -------------------------------------------------------------------------------------------------

    def exec(
        self, command: str, *, timeout_s: float | None = None, max_output_bytes: int | None = None
    ) -> ExecResult:
        """The result of `command` in the box's shell; a command that is killed takes the shell's variables along."""
        with self._lock:
            shell = self._ready_shell()
            if "\0" in command:
                return _refused("bash: a command cannot hold a NUL byte\n")
            started = time.monotonic()
            allowed = self._spec.limits.command_s if timeout_s is None else timeout_s
            wall_left = self._meter.wall_left_s
            output = Output(self._spec.limits.output_bytes if max_output_bytes is None else max_output_bytes)
            self._meter.new_hits()
            self._struck, self._since, self._busy = None, now_ticks(), True
            try:
                report = shell.run(command, output, min(allowed, wall_left + 0.2), self._kill_command)
            finally:
                self._busy = False
            with self._killing:
                pass  # the watching thread may still be at it
            if report.timed_out and wall_left < allowed:
                self._over = self._struck = "wall"
            if report.box_ended or (report.timed_out and not report.shell_ended and report.code is None):
                self._stop()
            limit = self._limit_hit(report)
            killed = report.timed_out or report.box_ended or self._struck is not None
            killed = killed or (limit is not None and report.code in (128 + 9, 128 + signal.SIGXFSZ))
            return ExecResult(
                exit_code=None if killed else report.code,
                output=output.text(),
                truncated=output.truncated,
                timed_out=report.timed_out and limit is None,
                limit=limit,
                seconds=time.monotonic() - started,
            )

    def _ready_shell(self) -> Shell:
        """The shell, started again in a new box over the same files if the old box's processes are gone."""
        self._require_open()
        if self._over:
            raise SandboxLimit(f"the box is over: its {self._over} limit was hit", kind=self._over)
        if self._launched is None or self._shell is None:
            raise SandboxLost("the box is gone")
        poll = select.poll()
        for handle in (self._launched.init_handle, self._supervisor_handle):
            poll.register(handle, select.POLLIN)
        if poll.poll(0):  # killed from inside
            folder = self._shell.folder
            self._stop()
            self._let_go()
            self._start(folder)
        return self._shell

    def _require_open(self) -> None:
        if self._closed or self._frozen:
            raise SandboxError("the box is closed" if self._closed else "the box is frozen")

    def _limit_hit(self, report: Report) -> Kind | None:
        if self._struck:
            return self._struck
        hits = self._meter.new_hits()
        if hits:
            if "processes" in hits and not report.shell_ended:
                self._kill_command()
            return hits[0]
        return "disk" if report.code == 128 + signal.SIGXFSZ else None

    def _kill_command(self) -> None:
        """Kill the shell and every process that started since its command did; the whole box if that fails."""
        with self._killing:
            self._kill_since_command()

    def _kill_since_command(self) -> None:
        launched = self._launched
        if launched is None:
            return
        deadline = time.monotonic() + _KILL_S
        while time.monotonic() < deadline:
            victims = [
                process
                for process in descendants(launched.init, all_processes())
                if process.state != "Z"
                and process.pid != self._supervisor
                and (process.start >= self._since or process.parent == self._supervisor)
            ]
            if not victims:
                return
            for process in victims:
                kill_process(process)
            time.sleep(0.002)
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(launched.init_handle, signal.SIGKILL)

    # --- limits (called by the watching thread) ---------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether a command runs."""
        return self._busy

    def look(self, processes: Sequence[Process]) -> None:
        """Kill what exceeds a limit: the command for memory and processes, the box for disk and wall clock."""
        launched = self._launched
        if launched is None or self._frozen or self._over:
            return
        kind = self._meter.exceeded(launched.init, processes)
        if kind is None:
            return
        with self._killing:
            self._struck = kind
            if kind in ("disk", "wall"):
                self._over = kind
                with contextlib.suppress(OSError):
                    signal.pidfd_send_signal(launched.init_handle, signal.SIGKILL)
            else:
                self._since = self._since if self._busy else 0
                self._kill_since_command()

    # --- files ------------------------------------------------------------------------------------------------------

    def read(self, path: str, *, max_bytes: int) -> bytes:
        """The file's first bytes, as the box's user may see it; links are followed inside the box only."""
        require_absolute(path)
        with self._lock:
            self._ready_shell()
            with as_box_user(self._uid):
                return read_in_root(self._root, path, max_bytes)

    def write(self, path: str, data: bytes) -> None:
        """Put `data` at `path` as the box's user would; links are followed inside the box only."""
        require_absolute(path)
        with self._lock:
            self._ready_shell()
            with as_box_user(self._uid):
                write_in_root(self._root, path, data)

    def changes(self, *, max_files: int = 200, max_bytes: int = 4_000_000) -> Changes:
        """What differs from the snapshot; the top-level `.git` is left out. The box must be frozen."""
        if self._closed or not self._frozen:
            raise SandboxError("changes are read after freeze and before close")
        if self._mode == "overlay":
            return overlay_changes(self._home / "upper", self._spec.snapshot, max_files, max_bytes)
        return tree_changes(self._home / "copy", self._spec.snapshot, max_files, max_bytes)


def _refused(output: str) -> ExecResult:
    return ExecResult(exit_code=2, output=output, truncated=False, timed_out=False, limit=None, seconds=0.0)
