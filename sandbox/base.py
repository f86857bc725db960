"""The contract of a sandbox: a box with no network that runs commands on a private copy of a snapshot.

    with open_sandbox("local", spec) as box:
        result = box.exec("python -m pytest -q", timeout_s=20)
        box.freeze()                 # every process of the box is dead from here on
        changes = box.changes()      # what differs from the snapshot, as data

Blocking calls; a caller with many boxes uses threads. Nothing in a box outlives `close`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Literal, Protocol, Self


@dataclass(frozen=True, kw_only=True, slots=True)
class BoxLimits:
    """What one box may use: seconds, MiB, processes, bytes kept of one command's output."""

    wall_s: float
    command_s: float
    memory_mb: int
    processes: int
    disk_mb: int
    output_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class BoxSpec:
    """A box to open.

    `rootfs` is a directory that becomes `/`, read-only (made by `sandbox.rootfs`). `snapshot` is a directory
    whose private, writable copy appears at `workdir`. `env` is the whole environment; nothing is inherited.
    `readonly` maps a path in the box to a host folder mounted read-only there (verifier's files only).
    `label` is found on everything the box leaves if we die; the reaper looks for it.
    """

    rootfs: Path
    snapshot: Path
    workdir: str
    env: Mapping[str, str] = field(default_factory=dict)
    limits: BoxLimits
    readonly: Mapping[str, Path] = field(default_factory=dict)
    label: str = "mimo"
    state_dir: Path | None = None
    """Where everything the box leaves on disk lives; None: `sandbox.state.state_dir()` decides."""
    image: str | None = None
    """docker: an image its daemons have, by digest (`sha256:…`), that takes the place of `rootfs`."""
    runtime: str | None = None
    """docker: the container runtime (runsc, kata, …); None: the daemon's default."""
    hosts: tuple[str, ...] = ()
    """docker: addresses of daemons to spread boxes over; empty: this machine's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExecResult:
    """One command: its exit code (None if it was killed), both streams merged as the terminal shows them.

    `output` keeps the first and last bytes when more than `output_bytes` came; `truncated` says so.
    `timed_out` is the command's own clock; `limit` names a limit of the box that killed it.
    """

    exit_code: int | None
    output: str
    truncated: bool
    timed_out: bool
    limit: Literal["memory", "processes", "disk", "wall"] | None
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class FileChange:
    """A path under the work tree that differs from the snapshot; `data` is None for a deletion."""

    path: str
    data: bytes | None
    mode: int | None
    refused: str | None = None
    """Why the change cannot be carried (device, fifo, link out, too large); then `data` is None."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Changes:
    """All changes, sorted by path, and whether caps (files, bytes) cut them."""

    files: tuple[FileChange, ...]
    capped: bool
    outside: tuple[str, ...] = ()
    """Paths outside the work tree that were written, where the back end can see them."""


class Sandbox(Protocol):
    """One box. Every method raises SandboxError and its children only."""

    def exec(
        self, command: str, *, timeout_s: float | None = None, max_output_bytes: int | None = None
    ) -> ExecResult:
        """The result of `command` in the box's shell (bash), whose folder and variables persist."""
        ...

    def read(self, path: str, *, max_bytes: int) -> bytes:
        """The file's first `max_bytes` bytes; never follows a link out of the box."""
        ...

    def write(self, path: str, data: bytes) -> None:
        """Put `data` at `path` in the box (folders made as needed), owned by the box's user."""
        ...

    def freeze(self) -> None:
        """Kill every process of the box; afterwards only `changes` and `close` may be called. Idempotent."""
        ...

    def changes(self, *, max_files: int = 200, max_bytes: int = 4_000_000) -> Changes:
        """What the box changed against the snapshot, read as data (no git, no path that leaves the tree)."""
        ...

    def close(self) -> None:
        """Take the box apart: processes, mounts, folders, cgroups. Idempotent, also after a failure."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
