"""Checks that a box leaves nothing, however it and its owner end."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from sandbox.base import Sandbox
from sandbox.conformance.opener import LABEL, Opener
from sandbox.errors import SandboxError
from sandbox.reaper import left_over, reap

_OWNER = """
import sys, time
from pathlib import Path
from sandbox.conformance.opener import Opener
box = Opener(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))()
mark = sys.argv[4]
print(box.exec(f"echo x > f; setsid -f sleep {mark}; sleep {mark} & echo up").output, flush=True)
time.sleep(600)
"""


def _running(mark: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if f"sleep\0{mark}\0".encode() == (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


def _two_run(mark: str) -> bool:
    deadline = time.monotonic() + 5
    while len(_running(mark)) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    return len(_running(mark)) == 2


def _cgroups(boxes: list[Path]) -> list[str]:
    """cgroups of these boxes."""
    found = []
    for box in boxes:
        found += [str(path) for path in Path("/sys/fs/cgroup").rglob(f"mimo-{box.name}")]
    return found


def _mark() -> str:
    return f"{400 + secrets.randbelow(90)}.{secrets.randbelow(10**9):09d}"


def _nothing_left(open_box: Opener, mark: str, mounts: str, boxes: list[Path]) -> None:
    assert _running(mark) == [], "processes are left"
    assert left_over(LABEL, open_box.state) == [], "folders are left"
    left = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if line not in mounts]
    assert not any(str(open_box.work) in line for line in left), "mounts are left"
    assert _cgroups(boxes) == [], "cgroups are left"


def check_close_leaves_nothing(open_box: Opener) -> None:
    """After close there is no process, mount, cgroup, folder or descriptor of the box; closing twice is
    fine."""
    with open_box():
        pass  # the launcher and its socket stay for the next box
    mounts, mark = Path("/proc/self/mountinfo").read_text(), _mark()
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    box = open_box()
    assert (
        box.exec(f"setsid -f sleep {mark}; sleep {mark} & mkdir -p a/b; chmod 000 a/b; echo up").output
        == "up\n"
    )
    assert _two_run(mark)
    boxes = left_over(LABEL, open_box.state)
    assert boxes, "an open box has no folder"
    box.close()
    box.close()
    _nothing_left(open_box, mark, mounts, boxes)
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors, "descriptors are left"
    try:
        box.exec("true")
    except SandboxError:
        return
    raise AssertionError("a closed box takes commands")


def check_killed_owner_leaves_nothing(open_box: Opener) -> None:
    """`kill -9` of the owner ends every process of its boxes; one reap removes the rest and no living
    owner's box."""
    mounts, mark = Path("/proc/self/mountinfo").read_text(), _mark()
    arguments = [open_box.backend, str(open_box.rootfs), str(open_box.work), mark]
    path = str(Path(__file__).parents[2])
    owner = subprocess.Popen(
        [sys.executable, "-c", _OWNER, *arguments],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert owner.stdout is not None
    with owner, open_box() as mine:
        try:
            assert owner.stdout.readline() == b"up\n"
            assert _two_run(mark)
            boxes = left_over(LABEL, open_box.state)
        finally:
            owner.send_signal(signal.SIGKILL)
            owner.wait()
        deadline = time.monotonic() + 5
        while _running(mark) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert _running(mark) == [], "processes outlive their owner"
        assert reap(LABEL, open_box.state) == [LABEL], "not exactly the dead owner's box is reaped"
        assert mine.exec("echo alive").output == "alive\n"
    _nothing_left(open_box, mark, mounts, boxes)
    assert reap(LABEL, open_box.state) == []


def check_box_killed_from_inside(open_box: Opener) -> None:
    """A command that kills everything it can only loses its shell; files and the box go on."""
    with open_box() as box:
        box.exec("echo kept > k; kill -9 -1")
        deadline = time.monotonic() + 5
        result = box.exec("cat k")
        while result.output != "kept\n" and time.monotonic() < deadline:
            result = box.exec("cat k")
        assert result.output == "kept\n", result
        box.freeze()
        assert [change.path for change in box.changes().files] == ["k"]


def check_box_outlives_its_thread(open_box: Opener) -> None:
    """A box stays when the thread that opened it ends; a death signal must not hang on that thread."""
    boxes: list[Sandbox] = []
    thread = threading.Thread(target=lambda: boxes.append(open_box()))
    thread.start()
    thread.join()
    with boxes[0] as box:
        time.sleep(0.1)
        assert box.exec("echo alive").output == "alive\n"


CHECKS = (
    check_box_outlives_its_thread,
    check_close_leaves_nothing,
    check_killed_owner_leaves_nothing,
    check_box_killed_from_inside,
)
