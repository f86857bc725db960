"""Huge pages for processes that compute: what is asked for, what a user set, what the kernel gives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mimo.backends.malloc import with_huge_pages

THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")
ALLOCATE = """
import ctypes, re
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
size = 64 << 20
ctypes.memset(libc.malloc(ctypes.c_size_t(size)), 1, size)
print(sum(int(kib) for kib in re.findall(r"AnonHugePages: +([0-9]+) kB", open("/proc/self/smaps").read())))
"""


def tunables(env: dict[str, str]) -> dict[str, str]:
    return dict(part.split("=", 1) for part in env["GLIBC_TUNABLES"].split(":"))


def test_freed_memory_is_kept_only_where_asked() -> None:
    assert tunables(with_huge_pages({}, keep_freed=False)) == {"glibc.malloc.hugetlb": "1"}
    env = with_huge_pages({"PATH": "/bin"}, keep_freed=True)
    assert env["PATH"] == "/bin"
    assert tunables(env).keys() == {
        "glibc.malloc.hugetlb", "glibc.malloc.mmap_max", "glibc.malloc.trim_threshold"
    }  # fmt: skip


def test_what_the_user_set_stays() -> None:
    given = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=0:glibc.malloc.check=1"}
    env = with_huge_pages(with_huge_pages(given, keep_freed=False), keep_freed=True)
    assert tunables(env)["glibc.malloc.hugetlb"] == "0"
    assert tunables(env)["glibc.malloc.check"] == "1"
    assert tunables(env)["glibc.malloc.mmap_max"] == "0"


@pytest.mark.skipif(
    not THP.is_file() or "[never]" in THP.read_text(), reason="the kernel gives no huge pages here"
)
def test_the_kernel_gives_them() -> None:
    plain = {name: value for name, value in os.environ.items() if name != "GLIBC_TUNABLES"}
    printed = subprocess.run(
        [sys.executable, "-c", ALLOCATE],
        env=with_huge_pages(plain, keep_freed=True),
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(printed.stdout) >= 2048, "of 64 MiB not one huge page's worth lies in huge pages"
