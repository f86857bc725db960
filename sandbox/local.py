"""The back end `local`: boxes made with bubblewrap, without a daemon, as root or as an ordinary user.

The box has its own root file system, process, network, IPC, host name and user namespaces, no capability,
a system-call filter and its own user. Its private writable copy of the snapshot is an overlay mounted inside
the box's mount namespace, or a plain copy where overlays are impossible. Same kernel as the host: this holds
a policy that seeks reward, not an attacker with a kernel exploit (see docs/sandbox.md).
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from sandbox.base import BoxSpec, Changes, ExecResult
from sandbox.cgroups import BoxGroup, parents, remove_groups
from sandbox.changes import overlay_changes, tree_changes
from sandbox.errors import SandboxError, SandboxLimit, SandboxUnavailable
from sandbox.launch import LaunchFailed
from sandbox.limits import OWN_PROCESSES, Kind, Meter, watch
from sandbox.local_process import BoxProcess
from sandbox.local_setup import (
    bwrap_arguments,
    launch_request,
    private_copy,
    tell_weaker,
    try_overlay_again,
)
from sandbox.paths import as_box_user, read_in_root, remove_tree, require_absolute, write_in_root
from sandbox.procs import Process, now_ticks
from sandbox.shell import Output, Report, exec_result
from sandbox.snapshot import BOX_UID
from sandbox.state import Owner, new_box_folder, record_owner, state_dir


class LocalBox:
    """One box; see `sandbox.base.Sandbox`. Safe to freeze and close from another thread."""

    def __init__(self, spec: BoxSpec) -> None:
        bwrap = shutil.which("bwrap")
        if bwrap is None:
            raise SandboxUnavailable("bubblewrap is not installed", hint="apt-get install bubblewrap")
        if not spec.snapshot.is_dir():
            hint = "make one with sandbox.snapshot.snapshot_tree"
            raise SandboxError(f"no snapshot at {spec.snapshot}", hint=hint)
        self._spec = spec
        self._bwrap = bwrap
        self._uid = BOX_UID if os.geteuid() == 0 else None
        self._lock = threading.RLock()
        self._judging = threading.Lock()
        self._busy = self._frozen = self._closed = False
        self._over: Kind | None = None
        self._struck: Kind | None = None
        self._since = 0
        self._process: BoxProcess | None = None
        self._starts = 0
        self._owner = Owner.of_this_process(spec.label)
        self._home = new_box_folder(state_dir(spec.state_dir), self._owner)
        self._group = BoxGroup(f"mimo-{self._home.name}") if parents() else None
        try:
            self._make()
        except BaseException:
            self._closed = True
            self._take_apart()
            raise
        watch.add(self)

    # --- life ---------------------------------------------------------------------------------------------

    def _make(self) -> None:
        if self._group:
            folders = [str(folder) for folder in self._group.folders]
            self._owner = record_owner(self._home, self._owner, cgroups=folders)
            limits = self._spec.limits
            self._group.make(limits.memory_mb, limits.processes + OWN_PROCESSES)
        self._mode = "overlay" if try_overlay_again(self._home, self._spec.snapshot, self._uid) else "copy"
        try:
            self._start(self._spec.workdir)
        except LaunchFailed as failure:
            if failure.step != "overlay":
                raise
            try_overlay_again(self._home, self._spec.snapshot, self._uid, failed=True)
            self._mode = "copy"
            self._start(self._spec.workdir)
        written = self._home / ("upper" if self._mode == "overlay" else "copy")
        tell_weaker(watched=self._group is None, copied=self._mode == "copy")
        self._meter = Meter(self._spec.limits, written, self._group)
        self.needs_processes = not self._meter.counts_by_kernel

    def _start(self, folder: str) -> BoxProcess:
        """Start the box's processes, over the files it has already if it ran before."""
        self._starts += 1
        if self._mode == "copy" and self._starts <= 2 and not (self._home / "copy").exists():
            private_copy(self._spec.snapshot, self._home / "copy", self._uid)
        cgroups = self._group.entries if self._group else []
        request = launch_request(
            self._spec, self._home, self._mode, self._uid, start=self._starts, cgroups=cgroups
        )
        request["bwrap"] = self._bwrap
        process = BoxProcess(request, bwrap_arguments(self._spec), folder)
        self._process = process
        facts = {"init": process.init, "init_start": process.init_start}
        self._owner = record_owner(self._home, self._owner, **facts)
        return process

    def freeze(self) -> None:
        """Kill every process of the box and wait for their end."""
        self._frozen = True
        process = self._process
        if process is None:
            return
        process.stop()
        with self._lock, self._judging:
            if self._process is not None:
                self._process.let_go()
                self._process = None

    def close(self) -> None:
        """Take the box apart: processes, cgroups, folders."""
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
        """How this box is made: `tree` overlay or copy, `limits` cgroup or watcher, `user`, `path` of its
        state."""
        own = f"{os.geteuid()} (yours, in a user namespace)"
        return {
            "backend": "local",
            "tree": self._mode,
            "limits": "cgroup" if self._group else "watcher",
            "user": own if self._uid is None else str(self._uid),
            "path": str(self._home),
        }

    # --- commands -----------------------------------------------------------------------------------------

    def exec(
        self, command: str, *, timeout_s: float | None = None, max_output_bytes: int | None = None
    ) -> ExecResult:
        """The result of `command` in the box's shell; a command that is killed takes the shell's variables
        along."""
        limits = self._spec.limits
        output = Output(limits.output_bytes if max_output_bytes is None else max_output_bytes)
        allowed = limits.command_s if timeout_s is None else timeout_s
        with self._lock:
            process = self._live_process()
            if "\0" in command:
                output.add(b"bash: a command cannot hold a NUL byte\n")
                return self._result(Report(2, False, False, False), output, None, 0.0)
            started, wall_left = time.monotonic(), self._meter.wall_left_s
            self._meter.new_hits()
            self._struck, self._since, self._busy = None, now_ticks(), True
            try:
                report = process.shell.run(
                    command, output, min(allowed, wall_left + 0.2), lambda: process.kill_command(self._since)
                )
            finally:
                self._busy = False
            with self._judging:  # the watching thread may still be killing
                if report.timed_out and wall_left < allowed:
                    self._over = self._struck = "wall"
            if report.box_ended or (report.timed_out and not report.shell_ended and report.code is None):
                process.stop()
            return self._result(report, output, self._limit_hit(report, process), time.monotonic() - started)

    def _result(self, report: Report, output: Output, limit: Kind | None, seconds: float) -> ExecResult:
        return exec_result(report, output, limit, struck=self._struck is not None, seconds=seconds)

    def _live_process(self) -> BoxProcess:
        """The box's processes, started again over the same files if they were killed."""
        if self._closed or self._frozen or self._process is None:
            raise SandboxError("the box is closed" if self._closed else "the box is frozen")
        if self._over:
            raise SandboxLimit(f"the box is over: its {self._over} limit was hit", kind=self._over)
        if self._process.is_broken:
            folder = self._process.shell.folder
            with self._judging:
                self._process.stop()
                self._process.let_go()
                self._process = None
            return self._start(folder)
        return self._process

    def _limit_hit(self, report: Report, process: BoxProcess) -> Kind | None:
        if self._struck:
            return self._struck
        hits = self._meter.new_hits()
        if hits:
            if "processes" in hits and not report.shell_ended:
                process.kill_command(self._since)
            return hits[0]
        return "disk" if report.code == 128 + signal.SIGXFSZ else None

    # --- limits (called by the watching thread) -------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether a command runs."""
        return self._busy

    def look(self, processes: Sequence[Process]) -> None:
        """Kill what exceeds a limit: the command for memory and processes, the box for disk and wall
        clock."""
        with self._judging:
            process = self._process
            if process is None or self._frozen or self._over:
                return
            kind = self._meter.exceeded(process.init, processes)
            if kind is None:
                return
            self._struck = kind
            if kind in ("disk", "wall"):
                self._over = kind
                process.kill()
            else:
                process.kill_command(self._since if self._busy else 0)

    # --- files --------------------------------------------------------------------------------------------

    def read(self, path: str, *, max_bytes: int) -> bytes:
        """The file's first bytes, as the box's user may see it; links are followed inside the box only."""
        require_absolute(path)
        with self._lock:
            root = self._live_process().root
            with as_box_user(self._uid):
                return read_in_root(root, path, max_bytes)

    def write(self, path: str, data: bytes) -> None:
        """Put `data` at `path` as the box's user would; links are followed inside the box only."""
        require_absolute(path)
        with self._lock:
            root = self._live_process().root
            with as_box_user(self._uid):
                write_in_root(root, path, data)

    def changes(self, *, max_files: int = 200, max_bytes: int = 4_000_000) -> Changes:
        """What differs from the snapshot; the top-level `.git` is left out. The box must be frozen."""
        if self._closed or not self._frozen:
            raise SandboxError("changes are read after freeze and before close")
        if self._mode == "overlay":
            return overlay_changes(self._home / "upper", self._spec.snapshot, max_files, max_bytes)
        return tree_changes(self._home / "copy", self._spec.snapshot, max_files, max_bytes)
