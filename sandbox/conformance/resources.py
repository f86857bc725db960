"""Checks that limits kill and are named."""

from __future__ import annotations

import time

from sandbox.base import Sandbox
from sandbox.conformance.opener import WORKDIR, Opener
from sandbox.errors import SandboxLimit

_HOG = """
import time
kept = []
for i in range(4000):
    kept.append(bytearray(b"x") * (1 << 20))
    time.sleep(0.001)
time.sleep(5)
"""
_FORKS = """
import os, time
for i in range(2000):
    try: pid = os.fork()
    except OSError: break
    if pid == 0: time.sleep(20); os._exit(0)
print("forks", i, flush=True); time.sleep(20)
"""


def check_memory_limit(open_box: Opener) -> None:
    """A command that takes too much memory is killed, the limit is named, the box goes on."""
    with open_box(memory_mb=128) as box:
        box.write(f"{WORKDIR}/hog.py", _HOG.encode())
        result = box.exec("python3 hog.py")
        assert result.limit == "memory", result
        assert result.exit_code is None
        assert not result.timed_out
        assert box.exec("echo alive").output == "alive\n"
        assert box.exec("python3 -c 'x = bytearray(30 << 20)'").exit_code == 0


def check_process_limit(open_box: Opener) -> None:
    """A fork bomb is held at the limit and killed, the limit is named, the box goes on."""
    with open_box(processes=32) as box:
        box.write(f"{WORKDIR}/forks.py", _FORKS.encode())
        result = box.exec("python3 forks.py")
        assert result.limit == "processes", result
        assert result.seconds < 15
        _settled(box)
        result = box.exec(":(){ :|:& };:; sleep 3", timeout_s=10)
        assert result.limit == "processes", result
        _settled(box)
        assert box.exec("for i in 1 2 3; do sleep 0.1 & done; wait; echo fine").output.endswith("fine\n")


def _settled(box: Sandbox) -> None:
    result = box.exec("echo alive")
    assert result.output.endswith("alive\n"), result
    count = int(box.exec("ls -d /proc/[0-9]* | wc -l").output.split()[-1])
    assert count < 12, f"{count} processes are left"


def check_disk_limit(open_box: Opener) -> None:
    """Filling the tree, with many files or with one, ends the box; the limit is named."""
    many = "for i in $(seq 10000); do head -c 1000000 /dev/zero > f$i; done"
    for command in (many, "cat /dev/zero > one", "mkdir -p h && chmod 000 h/. ; mkdir d; cd d; " + many):
        with open_box(disk_mb=32) as box:
            result = box.exec(command)
            assert result.limit == "disk", (command, result)
            try:
                again = box.exec("echo x; sleep 3").limit
            except SandboxLimit as error:
                again = "disk" if error.kind == "disk" else None
            assert again == "disk" or result.exit_code is None, "the full box goes on"


def check_wall_limit(open_box: Opener) -> None:
    """At the end of its time the box is killed; the command says so and no other is taken."""
    with open_box(wall_s=1.0) as box:
        started = time.monotonic()
        result = box.exec("sleep 30", timeout_s=20)
        assert result.limit == "wall", result
        assert time.monotonic() - started < 6
        try:
            box.exec("true")
        except SandboxLimit as error:
            kind = error.kind
        else:
            raise AssertionError("a box whose time is over takes commands")
        assert kind == "wall"


def check_temporary_folders_are_sized(open_box: Opener) -> None:
    """/tmp and /dev/shm are bounded file systems of their own."""
    with open_box(memory_mb=256, disk_mb=64) as box:
        result = box.exec("head -c 300000000 /dev/zero > /tmp/x; head -c 300000000 /dev/zero > /dev/shm/x")
        assert result.output.count("No space left") == 2 or result.limit == "memory", result
        box.exec("rm -f /tmp/x /dev/shm/x")
        assert box.exec("echo y > /tmp/y && cat /tmp/y").output == "y\n"


CHECKS = (
    check_memory_limit,
    check_process_limit,
    check_disk_limit,
    check_wall_limit,
    check_temporary_folders_are_sized,
)
