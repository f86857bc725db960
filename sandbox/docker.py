"""The back end `docker`: boxes are containers of a daemon on this machine or on others.

A box has no network, no capability, no new privileges, our system-call filter, a user that is not root and
limits of the daemon's cgroups. Root file system and work tree are image layers; of the root, only root may
write. What the box writes lies in the container's own layer, which the daemon measures and archives for us.
Nothing of the host is mounted. The box's first program holds our connection and ends with it, so that no box
outlives us; containers of dead processes are found by label or record and removed.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from docker import APIClient
from docker.errors import ImageNotFound

from sandbox.base import BoxSpec, Changes, ExecResult
from sandbox.docker_changes import archive_changes, written_paths
from sandbox.docker_create import create
from sandbox.docker_host import give_host, take_host
from sandbox.docker_images import ensure_image
from sandbox.docker_process import BoxPrograms, died_of_memory, written_bytes
from sandbox.docker_reaper import labels, sweep_once
from sandbox.docker_tar import add_tree, upload
from sandbox.errors import SandboxError, SandboxLimit
from sandbox.limits import Kind, watch
from sandbox.paths import remove_tree, require_absolute
from sandbox.procs import Process
from sandbox.shell import Output, Report, exec_result
from sandbox.state import Owner, new_box_folder, record_owner, state_dir

_CALL_S = 15.0
"""Longest answer of the daemon to the thread that watches all boxes."""
_Counted = Literal["memory", "processes"]
_COUNTED: tuple[_Counted, ...] = ("memory", "processes")
_log = logging.getLogger(__name__)


class DockerBox:
    """One box; see `sandbox.base.Sandbox`. Safe to freeze and close from another thread."""

    needs_processes = False

    def __init__(self, spec: BoxSpec) -> None:
        if not spec.snapshot.is_dir():
            hint = "make one with sandbox.snapshot.snapshot_tree"
            raise SandboxError(f"no snapshot at {spec.snapshot}", hint=hint)
        self._spec = spec
        self._lock = threading.RLock()
        self._judging = threading.Lock()
        self._busy = self._frozen = self._closed = self._gone = False
        self._over: Kind | None = None
        self._struck: Kind | None = None
        self._programs: BoxPrograms | None = None
        self._next_disk, self._brought = 0.0, 0
        self._home: Path | None = None
        self._host = take_host(spec.hosts, spec.runtime)
        try:
            sweep_once(self._host)
            self._make()
        except BaseException:
            self._closed = True
            self._take_apart()
            raise
        watch.add(self)

    # --- life ---------------------------------------------------------------------------------------------

    def _make(self) -> None:
        self._owner = Owner.of_this_process(self._spec.label)
        self._home = new_box_folder(state_dir(self._spec.state_dir), self._owner)
        self._container = f"mimo-{self._home.name}"
        record_owner(self._home, self._owner, host=self._host.address, container=self._container)
        image = ensure_image(self._host, self._spec)
        with self._host.starting:
            with self._host.api() as client:
                try:
                    self._create(client, image)
                except ImageNotFound:  # removed behind our back
                    self._host.seen.clear()
                    self._create(client, ensure_image(self._host, self._spec))
            self._programs = BoxPrograms(self._host, self._container, self._spec, self._spec.workdir)
        self._hits = dict(self._programs.hits)
        self._wall = time.monotonic() + self._spec.limits.wall_s

    def _create(self, client: APIClient, image: str) -> None:
        create(client, self._spec, image, self._container, labels(self._owner))
        for place, folder in self._spec.readonly.items():
            upload(client, self._container, lambda tar, p=place, f=folder: add_tree(tar, f, p, 0))  # type: ignore[misc]
        if self._spec.readonly:
            self._brought = written_bytes(client, self._container)

    def freeze(self) -> None:
        """Kill every process of the box and wait for their end."""
        self._frozen = True
        programs = self._programs
        if programs is None:
            return
        programs.kill()
        with self._lock, self._judging:
            if self._programs is not None:
                self._programs.let_go()
                self._programs = None

    def close(self) -> None:
        """Remove the container and what else the box left."""
        self._closed = True
        watch.remove(self)
        self._take_apart()

    def _take_apart(self) -> None:
        self._frozen = True
        with self._judging:
            if self._gone:
                return
            self._gone = True
        try:
            if self._home is not None:
                self._host.remove(self._container)
                remove_tree(self._home)
        except SandboxError as error:  # the record stays: the reaper tries again
            _log.warning("a box's container is left behind (%s: %s)", self._container, error)
        finally:
            with self._lock, self._judging:
                if self._programs is not None:
                    self._programs.let_go()
                    self._programs = None
            give_host(self._host)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def describe(self) -> dict[str, str]:
        """How this box is made: daemon, runtime, storage, cgroup version, container, path of its state."""
        facts = self._host.facts
        return {
            "backend": "docker",
            "tree": f"image layer ({facts['storage']})",
            "limits": f"cgroup {facts['cgroup']}",
            "host": self._host.address,
            "runtime": self._spec.runtime or "the daemon's default",
            "container": self._container,
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
            programs = self._live_programs()
            if "\0" in command:
                output.add(b"bash: a command cannot hold a NUL byte\n")
                return self._result(Report(2, False, False, False), output, None, 0.0)
            started, wall_left = time.monotonic(), self._wall - time.monotonic()
            self._struck, self._busy = None, True
            shell = programs.shell
            try:
                report = shell.run(
                    command, output, min(allowed, wall_left + 0.2), lambda: programs.kill_command(shell.since)
                )
            finally:
                self._busy = False
            with self._judging:  # the watching thread may still be killing
                if report.timed_out and wall_left < allowed:
                    self._over = self._struck = "wall"
            if report.timed_out and not report.shell_ended and report.code is None:
                programs.kill()
            return self._result(report, output, self._limit_hit(report, programs), time.monotonic() - started)

    def _result(self, report: Report, output: Output, limit: Kind | None, seconds: float) -> ExecResult:
        return exec_result(report, output, limit, struck=self._struck is not None, seconds=seconds)

    def _live_programs(self) -> BoxPrograms:
        """The box's programs, started again over the same files if they were killed."""
        if self._closed or self._frozen or self._programs is None:
            raise SandboxError("the box is closed" if self._closed else "the box is frozen")
        if self._over:
            raise SandboxLimit(f"the box is over: its {self._over} limit was hit", kind=self._over)
        if self._programs.is_broken:
            folder = self._programs.shell.folder
            with self._judging:
                self._programs.kill()
                self._programs.let_go()
                self._programs = BoxPrograms(self._host, self._container, self._spec, folder)
                self._hits = dict(self._programs.hits)
        return self._programs

    def _limit_hit(self, report: Report, programs: BoxPrograms) -> Kind | None:
        hits = self._new_hits(programs, _COUNTED)
        if self._struck:
            return self._struck
        if hits:
            if "processes" in hits and not report.shell_ended:
                programs.kill_command(programs.shell.since)
                self._new_hits(
                    programs, _COUNTED
                )  # what it still tried while it was killed is no later command's
            return hits[0]
        if report.box_ended and died_of_memory(self._host, self._container):
            return "memory"
        return "disk" if report.code == 128 + signal.SIGXFSZ else None

    def _new_hits(
        self, programs: BoxPrograms, kinds: Sequence[_Counted], *, wait: bool = True
    ) -> list[_Counted]:
        """Which of these limits the kernel enforced since the last look at them."""
        now = programs.warden.hits(wait=wait)
        if now is None:
            return []
        new = [kind for kind in kinds if now[kind] > self._hits.get(kind, 0)]
        self._hits.update({kind: now[kind] for kind in kinds})
        return new

    # --- limits (called by the watching thread) -------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether a command runs."""
        return self._busy

    def look(self, processes: Sequence[Process]) -> None:  # noqa: ARG002 - the daemon's cgroup counts them
        """Kill what exceeds a limit: the command for processes, the box for disk and wall clock."""
        with self._judging:
            programs = self._programs
            if programs is None or self._frozen or self._over:
                return
            try:
                self._judge(programs)
            except SandboxError as error:
                _log.warning("a box could not be looked at (%s: %s)", self._container, error)

    def _judge(self, programs: BoxPrograms) -> None:
        kind: Kind | None = None
        if time.monotonic() > self._wall:
            kind = "wall"
        elif self._disk_is_full():
            kind = "disk"
        if kind is not None:
            self._struck = self._over = kind
            programs.kill()
        elif self._busy and self._new_hits(programs, ("processes",), wait=False):
            self._struck = "processes"
            programs.kill_command(programs.shell.since)

    def _disk_is_full(self) -> bool:
        started = time.monotonic()
        if started < self._next_disk:
            return False
        with self._host.api(_CALL_S) as client:
            used = written_bytes(client, self._container) - self._brought
        self._next_disk = started + 10 * (time.monotonic() - started)
        return used > self._spec.limits.disk_mb << 20

    # --- files --------------------------------------------------------------------------------------------

    def read(self, path: str, *, max_bytes: int) -> bytes:
        """The file's first bytes, as the box's user may see it; links are followed inside the box only."""
        require_absolute(path)
        with self._lock:
            return self._live_programs().warden.read(path, max_bytes)

    def write(self, path: str, data: bytes) -> None:
        """Put `data` at `path` as the box's user would; links are followed inside the box only."""
        require_absolute(path)
        with self._lock:
            self._live_programs().warden.write(path, data)

    def changes(self, *, max_files: int = 200, max_bytes: int = 4_000_000) -> Changes:
        """What differs from the snapshot; the top-level `.git` is left out. The box must be frozen."""
        if self._closed or not self._frozen:
            raise SandboxError("changes are read after freeze and before close")
        spec = self._spec
        with self._host.api() as client:
            listed = client.diff(self._container)
            inside, outside = written_paths(listed, spec.workdir, spec.readonly)
            pieces, _facts = client.get_archive(self._container, spec.workdir)
            source = iter(pieces)
            found = archive_changes(source, spec.snapshot, inside, max_files, max_bytes)
            for _rest in source:  # the connection is free for the next call only when all was read
                pass
        return Changes(files=found.files, capped=found.capped, outside=tuple(sorted(outside)))
