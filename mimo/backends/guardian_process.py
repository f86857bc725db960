"""The guardian itself: a small process that outlives its owner just long enough to end an engine's tree.

Run as a script by `mimo.backends.guardian.Guarded`; standard library only, so that it starts in milliseconds.
Two processes watch each other: the outer one holds the death pipe (its stdin), the inner one is the engine's
parent. Both are child subreapers, so nothing that the engine starts can leave their tree, whatever session it
moves to. Whichever of the two is left ends the tree and removes the temporary folder and the `/dev/shm`
segments that it saw the tree make.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn, TypedDict

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
TICK_S = 0.2
KILL_WAIT_S = 20.0
LOOKS = 10
MARK = "MIMO_GUARD"
SHM = Path("/dev/shm")


class Spec(TypedDict):
    """One line of JSON on the guardian's stdin; all that comes after it is silence, then end of file."""

    owner: int
    token: str
    command: list[str]
    env: dict[str, str]
    cwd: str | None
    log_file: str
    tmp_parent: str | None


Segment = tuple[str, int]
"""Name and inode: a name that was taken again by somebody else is another segment."""


def prctl(option: int, value: int) -> None:
    """Linux `prctl(2)` for the calling process."""
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}, {value})")


def facts_of(pid: int) -> tuple[str, int, int] | None:
    """State, parent and session of a process; None when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, parent, _, session = stat.rpartition(")")[2].split()[:4]
    return state, int(parent), int(session)


def over(pid: int, state: str) -> bool:
    """Whether a process has ended. The first thread's state says Z while others still hold its memory."""
    try:
        return state in "ZX" and len(os.listdir(f"/proc/{pid}/task")) <= 1  # noqa: PTH208
    except OSError:
        return True


def descendants(root: int) -> list[int]:
    """Every living process below `root`, those below a zombie too."""
    facts = {pid: found for pid in all_pids() if (found := facts_of(pid))}
    children: dict[int, list[int]] = {}
    for pid, (_, parent, _) in facts.items():
        children.setdefault(parent, []).append(pid)
    below: list[int] = []
    stack = [root]
    while stack:
        stack += (next_ones := children.get(stack.pop(), []))
        below += next_ones
    return [pid for pid in below if not over(pid, facts[pid][0])]


def all_pids() -> list[int]:
    """The process ids in `/proc`."""
    return [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()]


def marked(token: str, session: int | None = None) -> list[int]:
    """Living processes with this guard's mark in their environment, or of this session.

    A program that renames itself (vLLM's workers do) overwrites the environment that `/proc` shows.
    """
    mark = f"{MARK}={token}".encode()
    found = []
    for pid in all_pids():
        facts = facts_of(pid)
        if facts is None or over(pid, facts[0]):
            continue
        with suppress(OSError):
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            if facts[2] == session or mark in environment:
                found.append(pid)
    return found


def is_guard(pid: int) -> bool:
    """Whether a process is a guardian: one that ends by itself and must not be killed with its engine."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return str(Path(__file__)).encode() in words


def segments() -> set[Segment]:
    """The files in `/dev/shm` that belong to this user."""
    found = set()
    for entry in os.scandir(SHM):
        try:
            stat = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        if stat.st_uid == os.geteuid():
            found.add((entry.name, stat.st_ino))
    return found


def held_by(pids: Iterable[int]) -> set[str]:
    """Names in `/dev/shm` that these processes map or have open."""
    names: set[str] = set()
    for pid in pids:
        try:
            maps = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace")
            names |= {line.partition("/dev/shm/")[2] for line in maps.splitlines() if "/dev/shm/" in line}
            for fd in Path(f"/proc/{pid}/fd").iterdir():
                names.add(str(fd.readlink()).partition("/dev/shm/")[2])
        except OSError:
            continue
    return names - {""}


def segments_of(pids: list[int]) -> set[str]:
    """Names in `/dev/shm` that these processes hold, or that carry one of their numbers."""
    numbers = {str(pid) for pid in pids}
    named = {name for name, _ in segments() if numbers & set(re.findall(r"\d+", name))}
    return held_by(pids) | named


def unlink_unheld(names: set[str]) -> None:
    """Remove these segments, but for those that a living process holds."""
    if names:
        for name in names - held_by(all_pids()):
            (SHM / name).unlink(missing_ok=True)


class SharedMemory:
    """Which `/dev/shm` segments a tree made.

    Those that appear after the start and that a process of the tree holds, or that carry its number in their
    name (a semaphore may be open for an instant only: `sem.loky-PID-…`).
    """

    def __init__(self) -> None:
        self._foreign = segments()
        self._looks: dict[Segment, int] = {}
        self.owned: set[Segment] = set()

    def look(self, root: int) -> None:
        """Claim the new segments of the tree below `root`; after `LOOKS` looks a segment is another's."""
        fresh = segments() - self._foreign - self.owned
        if not fresh:
            return
        theirs = segments_of(descendants(root))
        for segment in fresh:
            self._looks[segment] = self._looks.get(segment, 0) + 1
            if segment[0] in theirs:
                self.owned.add(segment)
            elif self._looks[segment] >= LOOKS:
                self._foreign.add(segment)

    def remove(self) -> None:
        """Unlink what the tree made, unless a living process still holds it."""
        unlink_unheld({name for name, _ in self.owned & segments()})


def kill_all(pids: Iterable[int]) -> None:
    """SIGKILL to each; those already gone are no error."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def reap() -> dict[int, int]:
    """Exit codes of the children that ended since the last call (128 + n for signal n)."""
    ended: dict[int, int] = {}
    with suppress(ChildProcessError):
        while (answer := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            code = os.waitstatus_to_exitcode(answer[1])
            ended[answer[0]] = code if code >= 0 else 128 - code
    return ended


def end_tree(shared: SharedMemory, token: str, tmp_dir: Path) -> None:
    """Kill everything below this process until nothing is left, then remove segments and temporary folder."""
    shared.look(os.getpid())
    deadline = time.monotonic() + KILL_WAIT_S
    calm = 0
    while calm < 2 and time.monotonic() < deadline:
        left = set(descendants(os.getpid())) | set(marked(token))
        calm = 0 if left else calm + 1
        kill_all(left)
        reap()
        time.sleep(0.02)
    shared.remove()
    shutil.rmtree(tmp_dir, ignore_errors=True)


def start_engine(spec: Spec, tmp_dir: Path) -> int:
    """The engine's process id: a new session, output to the log, nothing inherited but the environment."""
    parent = os.getpid()

    def die_with_parent() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    env = spec["env"] | {MARK: spec["token"], "TMPDIR": str(tmp_dir)}
    with open(spec["log_file"], "ab") as log:
        return subprocess.Popen(
            spec["command"],
            env=env,
            cwd=spec["cwd"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=die_with_parent,
        ).pid


def inner(spec: Spec, shared: SharedMemory, tmp_dir: Path, report: int) -> NoReturn:
    """Start the engine, leave with its exit code; when the outer guardian is gone, end the tree instead."""
    outer = os.getppid()
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        pid = start_engine(spec, tmp_dir)
    except OSError as error:
        os.write(report, json.dumps({"error": f"{spec['command'][0]}: {error}"}).encode() + b"\n")
        os._exit(127)
    os.write(report, json.dumps({"pid": pid, "tmp_dir": str(tmp_dir)}).encode() + b"\n")
    os.close(report)
    while True:
        if os.getppid() != outer:
            end_tree(shared, spec["token"], tmp_dir)
            os._exit(1)
        ended = reap()
        if pid in ended:
            os._exit(ended[pid])
        shared.look(os.getpid())
        time.sleep(TICK_S)


def outer(spec: Spec, shared: SharedMemory, tmp_dir: Path, child: int) -> int:
    """The engine's exit code: wait for its end or the owner's (end of file, another parent); end the tree."""
    code = 0
    while True:
        readable, _, _ = select.select([0], [], [], TICK_S)
        ended = reap()
        if child in ended:
            code = ended[child]
            break
        if (readable and not os.read(0, 4096)) or os.getppid() != spec["owner"]:
            break
        shared.look(os.getpid())
    end_tree(shared, spec["token"], tmp_dir)
    return code


def read_spec() -> Spec:
    """The first line of stdin, byte by byte so that nothing behind it is swallowed."""
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            sys.exit(0)
        line += byte
    spec: Spec = json.loads(line)
    return spec


def main() -> int:
    """Read the spec, start the inner guardian and watch; stdout carries one JSON line (pid or error)."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    spec = read_spec()
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    tmp_dir = Path(tempfile.mkdtemp(prefix="mimo-engine-", dir=spec["tmp_parent"]))
    shared = SharedMemory()
    child = os.fork()
    if child == 0:
        os.close(0)
        inner(spec, shared, tmp_dir, report=1)
    os.close(1)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGKILL))
    return outer(spec, shared, tmp_dir, child)


if __name__ == "__main__":
    sys.exit(main())
