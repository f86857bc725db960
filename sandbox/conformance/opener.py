"""Opens the boxes that the checks use, over snapshots made of a few given files."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from sandbox import open_sandbox
from sandbox.base import BoxLimits, BoxSpec, Sandbox
from sandbox.snapshot import snapshot_tree

LIMITS = BoxLimits(wall_s=60, command_s=20, memory_mb=256, processes=64, disk_mb=64, output_bytes=20_000)
LABEL = "conformance"
WORKDIR = "/repo"


@dataclass(frozen=True, slots=True)
class Opener:
    """`opener(files, ...)` is an open box of the back end under test; `state` is where all of them keep
    their state."""

    backend: str
    rootfs: Path
    work: Path
    many: int = 16
    """How many boxes a check opens at once."""

    @property
    def state(self) -> Path:
        """The state folder of all boxes of this opener."""
        return self.work / "state"

    def spec(
        self,
        files: Mapping[str, bytes] | None = None,
        *,
        env: Mapping[str, str] | None = None,
        readonly: Mapping[str, Path] | None = None,
        **limits: float,
    ) -> BoxSpec:
        """A box over a snapshot of `files` (path to content); `limits` replace fields of `BoxLimits`."""
        with tempfile.TemporaryDirectory(dir=self.work) as folder:
            for name, data in (files or {"a.txt": b"a\n"}).items():
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            digest = snapshot_tree(Path(folder), self.work / "snapshots")
        return BoxSpec(
            rootfs=self.rootfs,
            snapshot=self.work / "snapshots" / digest,
            workdir=WORKDIR,
            env=env or {},
            limits=replace(LIMITS, **limits),  # type: ignore[arg-type]
            readonly=readonly or {},
            label=LABEL,
            state_dir=self.state,
        )

    def __call__(
        self,
        files: Mapping[str, bytes] | None = None,
        *,
        env: Mapping[str, str] | None = None,
        readonly: Mapping[str, Path] | None = None,
        **limits: float,
    ) -> Sandbox:
        """An open box; the check closes it."""
        return open_sandbox(self.backend, self.spec(files, env=env, readonly=readonly, **limits))
