"""Whatever dies first, nothing of an engine is left: processes in other sessions, shared memory, folders."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mimo.backends.guardian import Guarded
from mimo.backends.process_tree import is_guard
from mimo.errors import EngineFailed

SHM = Path("/dev/shm")

# A process that leaves its session, ignores SIGTERM, maps one segment, leaves another that only its name
# betrays, has a child of its own, and a main process above it that does nothing.
ENGINE = textwrap.dedent(
    """
    import json, os, signal, sys, time
    from multiprocessing import resource_tracker, shared_memory
    out = sys.argv[1]
    if os.fork():
        while True:
            time.sleep(60)
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork():
        os._exit(0)                      # the one below is an orphan now
    segment = shared_memory.SharedMemory(create=True, size=4096)
    resource_tracker.unregister(segment._name, "shared_memory")
    betrayed = f"sem.loky-{os.getpid()}-test"
    open("/dev/shm/" + betrayed, "w").close()
    open(os.path.join(os.environ["TMPDIR"], "socket"), "w").close()
    child = os.fork()
    if child:
        facts = {"pids": [os.getpid(), child], "shm": [segment.name, betrayed], "tmp": os.environ["TMPDIR"]}
        with open(out + ".part", "w") as file:
            json.dump(facts, file)
        os.rename(out + ".part", out)
    while True:
        time.sleep(60)
    """
)

# An owner of two engines; also a forked child that holds copies of both death pipes for a while.
OWNER = textwrap.dedent(
    """
    import os, sys, time
    from pathlib import Path
    from mimo.backends.guardian import Guarded
    folder, engine = Path(sys.argv[1]), sys.argv[2]
    for name in ("a", "b"):
        command = [sys.executable, "-c", engine, str(folder / name)]
        Guarded.start(command, env=dict(os.environ), log_file=folder / f"{name}.log")
    if os.fork():
        (folder / "ready").touch()
    time.sleep(60)
    """
)


def facts(path: Path) -> dict[str, list[object]]:
    """What an engine wrote once it was up."""
    wait_for(path.exists)
    return json.loads(path.read_text())


def wait_for(what: Callable[[], bool], timeout_s: float = 10.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not what():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.02)


def alive(pid: object) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def gone(told: dict[str, list[object]]) -> bool:
    return (
        not any(alive(pid) for pid in told["pids"])
        and not any((SHM / str(name)).exists() for name in told["shm"])
        and not Path(str(told["tmp"])).exists()
    )


def start(folder: Path, name: str = "engine") -> Guarded:
    command = [sys.executable, "-c", ENGINE, str(folder / name)]
    return Guarded.start(command, env=dict(os.environ), log_file=folder / f"{name}.log")


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_close_ends_the_whole_tree_and_spares_others(tmp_path: Path) -> None:
    foreign = SHM / f"mimo-test-foreign-{os.getpid()}"
    with start(tmp_path) as guarded:
        told = facts(tmp_path / "engine")
        foreign.write_bytes(b"not the engine's")
        assert guarded.poll() is None
        assert Path(str(told["tmp"])) == guarded.tmp_dir
        assert guarded.tmp_dir.is_dir()
        outer = guarded._guardian.pid
        assert [is_guard(pid) for pid in (outer, children(outer)[0], guarded.pid, 1)] == [
            True,
            True,
            False,
            False,
        ]
        time.sleep(0.5)
        began = time.monotonic()
    assert gone(told)
    assert not alive(guarded.pid)
    assert time.monotonic() - began < 3
    assert foreign.exists()
    foreign.unlink()
    guarded.close()


def test_kill_9_of_the_owner_ends_both_engines(tmp_path: Path) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path), ENGINE])
    wait_for((tmp_path / "ready").exists)
    told = [facts(tmp_path / name) for name in ("a", "b")]
    assert not any(gone(each) for each in told)
    forked = [pid for pid in children(owner.pid) if b"fork" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    owner.kill()
    owner.wait()
    wait_for(lambda: all(gone(each) for each in told))
    for pid in forked:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("which", ["outer", "inner"])
def test_kill_9_of_a_guardian_ends_the_engine(tmp_path: Path, which: str) -> None:
    guarded = start(tmp_path)
    told = facts(tmp_path / "engine")
    outer = guarded._guardian.pid
    os.kill(outer if which == "outer" else children(outer)[0], signal.SIGKILL)
    wait_for(lambda: gone(told))
    wait_for(lambda: guarded.poll() is not None)
    guarded.close()
    assert not alive(guarded.pid)


def test_kill_9_of_both_guardians_leaves_nothing_once_the_owner_closes(tmp_path: Path) -> None:
    guarded = start(tmp_path)
    told = facts(tmp_path / "engine")
    outer = guarded._guardian.pid
    inner = children(outer)[0]
    os.kill(outer, signal.SIGSTOP)
    os.kill(inner, signal.SIGKILL)
    os.kill(outer, signal.SIGKILL)
    guarded.close()
    assert gone(told)
    assert not alive(guarded.pid)


def test_kill_9_of_the_engine_ends_the_rest_and_says_so(tmp_path: Path) -> None:
    guarded = start(tmp_path)
    told = facts(tmp_path / "engine")
    os.kill(guarded.pid, signal.SIGKILL)
    wait_for(lambda: guarded.poll() is not None)
    assert guarded.poll() == 128 + signal.SIGKILL
    assert gone(told)
    guarded.close()


# As vLLM's workers: a title over the environment that /proc shows; and a first thread that has ended while
# another one still holds a segment.
RENAMED = textwrap.dedent(
    """
    import ctypes, json, os, sys, threading, time
    from multiprocessing import resource_tracker, shared_memory
    import setproctitle
    out, tmp = sys.argv[1], os.environ["TMPDIR"]
    setproctitle.setproctitle("WORKER" * 2000)
    segment = shared_memory.SharedMemory(create=True, size=4096)
    resource_tracker.unregister(segment._name, "shared_memory")
    threading.Thread(target=time.sleep, args=(60,)).start()
    child = os.fork()
    if child == 0:
        time.sleep(60)
    with open(out + ".part", "w") as file:
        json.dump({"pids": [os.getpid(), child], "shm": [segment.name], "tmp": tmp}, file)
    os.rename(out + ".part", out)
    ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)
    """
)


@pytest.mark.parametrize("guards", ["alive", "killed"])
def test_renamed_processes_and_zombie_leaders_are_ended_too(tmp_path: Path, guards: str) -> None:
    command = [sys.executable, "-c", RENAMED, str(tmp_path / "engine")]
    guarded = Guarded.start(command, env=dict(os.environ), log_file=tmp_path / "log")
    told = facts(tmp_path / "engine")
    wait_for(lambda: not alive(told["pids"][0]))
    assert (SHM / str(told["shm"][0])).exists()
    assert guarded.poll() is None
    if guards == "killed":
        outer = guarded._guardian.pid
        inner = children(outer)[0]
        os.kill(outer, signal.SIGSTOP)
        os.kill(inner, signal.SIGKILL)
        os.kill(outer, signal.SIGKILL)
    guarded.close()
    assert gone(told)


def test_exit_code_log_and_environment(tmp_path: Path) -> None:
    script = "import os, sys; print(sorted(os.environ), os.getsid(0) == os.getpid()); sys.exit(7)"
    log = tmp_path / "deep" / "log"
    guarded = Guarded.start([sys.executable, "-S", "-c", script], env={"ONLY": "this"}, log_file=log)
    wait_for(lambda: guarded.poll() is not None)
    assert guarded.poll() == 7
    assert "['LC_CTYPE', 'MIMO_GUARD', 'ONLY', 'TMPDIR'] True" in log.read_text()
    assert not guarded.tmp_dir.exists()
    guarded.close()


def test_a_command_that_cannot_start(tmp_path: Path) -> None:
    with pytest.raises(EngineFailed, match="no-such-engine"):
        Guarded.start(["no-such-engine"], env={}, log_file=tmp_path / "log", tmp_parent=tmp_path)
    assert not list(tmp_path.glob("mimo-engine-*"))


def test_many_starts_leave_nothing(tmp_path: Path) -> None:
    parent = tmp_path / "t"
    parent.mkdir()
    all_guarded = [
        Guarded.start(["sleep", "60"], env=dict(os.environ), log_file=tmp_path / "log", tmp_parent=parent)
        for _ in range(5)
    ]
    assert len(list(parent.iterdir())) == 5
    for guarded in all_guarded:
        guarded.close()
    assert not list(parent.iterdir())
    assert not any(alive(guarded.pid) for guarded in all_guarded)
