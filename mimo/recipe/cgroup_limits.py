"""How much memory and processor time the container or service that this runs in may use (cgroup 1 and 2)."""

from __future__ import annotations

from pathlib import Path

_ROOT, _OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def memory_limit(root: Path = _ROOT, own: Path = _OWN) -> int | None:
    """The least limit in bytes on this process and the groups above it; None without one."""
    names = ("memory.max", "memory.limit_in_bytes")
    found = [int(text) for text in _values(root, own, names, "memory") if text.isdecimal()]
    real = [limit for limit in found if limit < 2**60]  # version 1 writes "none" as a huge number
    return min(real, default=None)


def core_limit(root: Path = _ROOT, own: Path = _OWN) -> float | None:
    """The least quota of processor time, in cores; None without one (a container's `--cpus`)."""
    found = []
    for text in _values(root, own, ("cpu.max",), "cpu"):
        quota, _, period = text.partition(" ")
        if quota.isdecimal() and period.isdecimal():
            found.append(int(quota) / int(period))
    quotas = _values(root, own, ("cpu.cfs_quota_us",), "cpu")
    periods = _values(root, own, ("cpu.cfs_period_us",), "cpu")
    for quota, period in zip(quotas, periods, strict=False):
        if quota.isdecimal() and period.isdecimal() and int(quota) > 0:
            found.append(int(quota) / int(period))
    return min(found, default=None)


def _values(root: Path, own: Path, names: tuple[str, ...], controller: str) -> list[str]:
    """The text of such files in this process's group and every group above it, as far as they are visible."""
    try:
        lines = own.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and controller not in controllers.split(","):
            continue
        top = root / controller if controllers else root
        inside = top / path.lstrip("/")
        folders = [folder for folder in (inside, *inside.parents) if folder == top or top in folder.parents]
        for file in (folder / name for folder in folders for name in names):
            try:
                found.append(file.read_text(encoding="utf-8").strip())
            except OSError:
                continue  # not this version, or not visible in the container
    return found
