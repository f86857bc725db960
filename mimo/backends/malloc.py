"""glibc's malloc for processes that compute on a CPU: huge pages, and freed memory kept for the next step.

Activations and gradients are gigabytes of 4 KiB pages in every step. On a virtual machine the same step of a
90M policy took 4 s or 9 s, for an hour at a time, and 3.5 s with the settings below (docs/training.md). Where
the kernel gives no huge pages (`/sys/kernel/mm/transparent_hugepage/enabled` says never), or malloc is
another one, nothing changes.
"""

from __future__ import annotations

from collections.abc import Mapping

VARIABLE = "GLIBC_TUNABLES"
_HUGE_PAGES = {"glibc.malloc.hugetlb": "1"}
_KEEP_FREED = {"glibc.malloc.mmap_max": "0", "glibc.malloc.trim_threshold": str(2**40)}


def with_huge_pages(env: Mapping[str, str], *, keep_freed: bool) -> dict[str, str]:
    """`env` for a child process whose malloc asks for huge pages; what a user has set there stays as it is.

    Args:
        keep_freed: memory once used is kept until the process ends, for one that needs it again each step.
    """
    wanted = _HUGE_PAGES | (_KEEP_FREED if keep_freed else {})
    given = dict(part.split("=", 1) for part in env.get(VARIABLE, "").split(":") if "=" in part)
    return {**env, VARIABLE: ":".join(f"{name}={value}" for name, value in (wanted | given).items())}
