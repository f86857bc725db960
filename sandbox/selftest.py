"""What this machine can do for each back end, with a reason and a remedy where it cannot."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from sandbox.base import BoxLimits, BoxSpec
from sandbox.cgroups import parents
from sandbox.errors import SandboxError, SandboxUnavailable
from sandbox.launch import STAGE

_SYSTEM_PARTS = ("bin", "lib", "lib64", "usr")


@dataclass(frozen=True, kw_only=True, slots=True)
class Availability:
    """Whether a back end works here. `reason` and `hint` are empty if it does; `details` say how."""

    ok: bool
    reason: str = ""
    hint: str = ""
    details: dict[str, str] = field(default_factory=dict)


def probe(backend: str) -> Availability:
    """local: opens a tiny box and runs `true` in it. docker: asks the daemon. Nothing is left behind.

    Raises:
        SandboxError: there is no such back end.
    """
    if backend == "docker":
        return _daemon()
    if backend != "local":
        raise SandboxError(f"no sandbox back end {backend!r}", hint="known: docker, local")
    if shutil.which("bwrap") is None:
        return Availability(ok=False, reason="bubblewrap is not installed", hint="apt-get install bubblewrap")
    details = {"bubblewrap": _bwrap_version(), "stage": STAGE, "limits": _limits()}
    try:
        with tempfile.TemporaryDirectory(prefix="mimo-probe-") as folder:
            return Availability(ok=True, details=details | _try(Path(folder)))
    except SandboxUnavailable as error:
        return Availability(ok=False, reason=str(error), hint=error.hint or "", details=details)
    except SandboxError as error:
        return Availability(ok=False, reason=str(error), hint=_remedy(str(error)), details=details)


def _daemon() -> Availability:
    """Whether this machine's Docker daemon answers, and what it is."""
    from sandbox.docker_host import require_hosts  # here: it loads an HTTP client

    try:
        host = require_hosts(())[0]
    except SandboxUnavailable as error:
        return Availability(ok=False, reason=str(error), hint=error.hint or "")
    details = {"address": host.address, **host.facts, "runtimes": " ".join(host.runtimes)}
    return Availability(ok=True, details=details)


def _bwrap_version() -> str:
    return subprocess.run(["bwrap", "--version"], capture_output=True, text=True, check=False).stdout.strip()


def _limits() -> str:
    where = parents()
    if where is None:
        return "watcher: no cgroup can be made here; limits are checked every 50 ms"
    return f"cgroup v{where.version}"


def _try(folder: Path) -> dict[str, str]:
    """How a box over the host's own programs was made; for this probe only, no policy ever sees it."""
    from sandbox.local import LocalBox

    root, snapshot = folder / "root", folder / "snapshot"
    root.mkdir()
    snapshot.mkdir()
    if os.geteuid() == 0:
        from sandbox.snapshot import BOX_UID

        os.chown(snapshot, BOX_UID, BOX_UID)
    for name in _SYSTEM_PARTS:
        source = Path("/", name)
        if source.is_symlink():
            (root / name).symlink_to(os.readlink(source))
        elif source.is_dir():
            (root / name).mkdir()
    readonly = {f"/{name}": Path("/", name) for name in _SYSTEM_PARTS if (root / name).is_dir()}
    limits = BoxLimits(wall_s=30, command_s=10, memory_mb=256, processes=32, disk_mb=16, output_bytes=4096)
    spec = BoxSpec(
        rootfs=root, snapshot=snapshot, workdir="/work", limits=limits, readonly=readonly, label="probe"
    )
    with LocalBox(spec) as box:
        result = box.exec("true")
        if result.exit_code != 0:
            raise SandboxError(f"a command in the box failed: {result.output.strip()}")
        facts = box.describe()
    return {name: facts[name] for name in ("tree", "limits", "user")}


def _remedy(message: str) -> str:
    if "Unknown option" in message:
        return "bubblewrap 0.8 or newer is needed"
    if "namespace" in message or "uid map" in message or "Operation not permitted" in message:
        return (
            "allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, or on Ubuntu "
            "kernel.apparmor_restrict_unprivileged_userns=0); a container needs a profile that allows them"
        )
    return "see docs/sandbox.md, section What can go wrong"
