"""The guardian itself: a small process that outlives its owner just long enough to end an engine's tree.

Run by `mimo.backends.guardian.Guarded`; standard library only, so that it starts in milliseconds.
Two processes watch each other: the outer one holds the death pipe (its stdin), the inner one is the engine's
parent. Both are child subreapers, so nothing that the engine starts can leave their tree, whatever session it
moves to. Whichever of the two is left ends the tree and removes the temporary folder and the `/dev/shm`
segments that it saw the tree make.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NoReturn, TypedDict

from mimo.backends.process_tree import MARK, SharedMemory, descendants, kill_all, marked, reap

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
TICK_S = 0.2
KILL_WAIT_S = 20.0


class Spec(TypedDict):
    """One line of JSON on the guardian's stdin; all that comes after it is silence, then end of file."""

    owner: int
    token: str
    command: list[str]
    env: dict[str, str]
    cwd: str | None
    log_file: str
    tmp_parent: str | None


def prctl(option: int, value: int) -> None:
    """Linux `prctl(2)` for the calling process."""
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}, {value})")


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
