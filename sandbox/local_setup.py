"""What a box of the back end `local` is made of: bubblewrap's options, the launcher's request, the private
copy."""

from __future__ import annotations

import functools
import logging
import os
import shutil
from pathlib import Path

from sandbox.base import BoxSpec
from sandbox.errors import SandboxError
from sandbox.launch import STAGE
from sandbox.limits import OWN_PROCESSES
from sandbox.shell import SUPERVISOR

SHELL = "usr/libexec/box-shell"
"""An unreadable copy of bash in root file systems made by `sandbox.rootfs`."""
DEFAULT_ENV = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "USER": "user",
}
_OUTPUT_SLACK_MB = 64
_log = logging.getLogger(__name__)
_no_overlay: set[tuple[int, int]] = set()


def bwrap_arguments(spec: BoxSpec) -> list[str]:
    """bubblewrap's options for a box; every source path is on the launcher's stage, so they name no host
    folder."""
    tmp_bytes = str(max(16, min(spec.limits.disk_mb, spec.limits.memory_mb // 4)) << 20)
    arguments = ["--unshare-all", "--unshare-user", "--uid", "1000", "--gid", "1000", "--cap-drop", "ALL"]
    arguments += ["--disable-userns", "--new-session", "--die-with-parent", "--hostname", "sbx", "--clearenv"]
    for name, value in {**DEFAULT_ENV, **spec.env}.items():
        arguments += ["--setenv", name, value]
    arguments += _root_arguments(spec.rootfs)
    arguments += ["--proc", "/proc", "--dev", "/dev"]
    arguments += ["--perms", "1777", "--size", tmp_bytes, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    arguments += ["--perms", "1777", "--size", tmp_bytes, "--tmpfs", "/tmp"]
    arguments += ["--bind", f"{STAGE}/work", spec.workdir]
    for i, path in enumerate(spec.readonly):
        arguments += ["--ro-bind", f"{STAGE}/ro{i}", path]
    arguments += ["--remount-ro", "/", "--chdir", spec.workdir]
    return [*arguments, "--seccomp", "5", "--json-status-fd", "6"]


@functools.lru_cache(maxsize=64)
def _root_arguments(rootfs: Path) -> list[str]:
    """Every entry of the root file system read-only over an empty root, so that mount points can be made
    beside."""
    arguments: list[str] = []
    try:
        entries = sorted(os.scandir(rootfs), key=lambda entry: entry.name)
    except OSError as error:
        raise SandboxError(
            f"no root file system at {rootfs}", hint="make one with sandbox.rootfs.ensure_rootfs"
        ) from error
    for entry in entries:
        if entry.name in ("proc", "dev", "tmp", "sys"):
            continue
        if entry.is_symlink():
            arguments += ["--symlink", os.readlink(entry.path), f"/{entry.name}"]
        else:
            arguments += ["--ro-bind", f"{STAGE}/root/{entry.name}", f"/{entry.name}"]
    return arguments


def launch_request(
    spec: BoxSpec, home: Path, mode: str, uid: int | None, *, start: int, cgroups: list[str]
) -> dict[str, object]:
    """What the launcher needs to know; makes the folders of the overlay. `start` counts the box's starts.

    Without a cgroup the shell sets a process limit on itself: inside the box's own user namespace the kernel
    counts the box's processes alone (since Linux 5.14).
    """
    upper, scratch = home / "upper", home / f"scratch{start}"
    if mode == "overlay":
        facts = spec.snapshot.stat()
        for folder in (upper, scratch):
            if not folder.exists():
                folder.mkdir(mode=0o755)
                folder.chmod(facts.st_mode & 0o777)
                if uid is not None:
                    os.chown(folder, uid, uid)
    most = spec.limits.processes + OWN_PROCESSES
    shell = f"/{SHELL}" if (spec.rootfs / SHELL).exists() else "/bin/bash"
    return {
        "cgroups": cgroups,
        "stage": STAGE,
        "rootfs": str(spec.rootfs.resolve()),
        "readonly": [str(path.resolve()) for path in spec.readonly.values()],
        "mode": mode,
        "snapshot": str(spec.snapshot.resolve()),
        "upper": str(upper),
        "scratch": str(scratch),
        "copy": str(home / "copy"),
        "userns": uid is None,
        "uid": uid,
        "file_bytes": (spec.limits.disk_mb + _OUTPUT_SLACK_MB) << 20,
        "command": [shell, "--norc", "--noprofile", "-c", SUPERVISOR, shell, "" if cgroups else str(most)],
    }


def try_overlay_again(home: Path, snapshot: Path, uid: int | None, *, failed: bool = False) -> bool:
    """Whether an overlay is worth trying here: not where one failed, nor over files the box's user does not
    own."""
    place = (home.stat().st_dev, snapshot.stat().st_dev)
    if failed:
        _no_overlay.add(place)
    return place not in _no_overlay and (uid is None or snapshot.stat().st_uid == uid)


def tell_weaker(*, watched: bool, copied: bool) -> None:
    """Warn, once a process each, of what this machine gives boxes instead of a cgroup and an overlay."""
    if watched:
        _warn_once("box limits are kept by a watcher (no cgroup can be made here; docs/sandbox.md)")
    if copied:
        _warn_once("boxes copy their snapshot (no overlay over it can be mounted here)")


@functools.cache
def _warn_once(text: str) -> None:
    _log.warning(text)


def private_copy(snapshot: Path, copy: Path, uid: int | None) -> None:
    """A plain copy of the snapshot, owned by the box's user."""
    shutil.copytree(snapshot, copy, symlinks=True)
    if uid is None:
        return
    os.chown(copy, uid, uid)
    for folder, folders, files in os.walk(copy):
        for name in (*folders, *files):
            os.chown(Path(folder, name), uid, uid, follow_symlinks=False)
