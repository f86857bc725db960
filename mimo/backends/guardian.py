"""An engine under guard: however its owner ends, the engine's process tree and shared memory end with it."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from mimo.backends import process_tree
from mimo.backends.guardian_process import Spec
from mimo.errors import EngineFailed

ROOT = Path(__file__).parents[2]
"""Where the package lies, for an interpreter without site-packages."""


class Guarded:
    """A running command and its guardian. Made by `start`; ended by `close`, or by the death of this process.

    The owner is the process that called `start`: only it holds the death pipe. `kill -9` of the owner, of the
    guardian or of the engine's main process leaves no process, no `/dev/shm` segment and no temporary folder.
    """

    def __init__(self, guardian: subprocess.Popen[bytes], *, pid: int, token: str, tmp_dir: Path) -> None:
        self._guardian = guardian
        self._token = token
        self.pid = pid
        """Process id of the command itself."""
        self.tmp_dir = tmp_dir
        """The folder given to the command as TMPDIR; removed at the end."""

    @classmethod
    def start(
        cls,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        log_file: Path,
        tmp_parent: Path | None = None,
        cwd: Path | None = None,
    ) -> Guarded:
        """Run `command` in a new session with exactly `env` (and TMPDIR); its output goes to `log_file`.

        Args:
            tmp_parent: where its temporary folder is made (None: TMPDIR of this process); a short path, as
                engines put Unix sockets there, whose paths end at 108 bytes.

        Raises:
            EngineFailed: the command cannot be started.
        """
        log_file.parent.mkdir(parents=True, exist_ok=True)
        token = secrets.token_hex(8)
        guardian = subprocess.Popen(
            [sys.executable, "-S", "-s", "-P", "-m", process_tree.GUARD_MODULE],
            env={"PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            cwd="/",
        )
        spec = Spec(
            owner=os.getpid(),
            token=token,
            command=[str(word) for word in command],
            env=dict(env),
            cwd=str((cwd or Path.cwd()).absolute()),
            log_file=str(log_file.absolute()),
            tmp_parent=str(tmp_parent.absolute()) if tmp_parent else None,
        )
        told = _hand_over(guardian, spec)
        if "pid" not in told:
            _close_stdin(guardian)
            guardian.wait()
            raise EngineFailed(f"cannot start {command[0]}: {told.get('error', 'the guardian died')}")
        return cls(guardian, pid=int(told["pid"]), token=token, tmp_dir=Path(told["tmp_dir"]))

    def poll(self) -> int | None:
        """None while the command runs; then, after its tree is gone, its exit code (128 + n for signal n)."""
        return self._guardian.poll()

    def close(self, timeout_s: float = 30.0) -> None:
        """End the whole tree and wait until it is gone. Idempotent.

        Raises:
            EngineFailed: a process of the tree could not be killed within `timeout_s`.
        """
        _close_stdin(self._guardian)
        deadline = time.monotonic() + timeout_s
        try:
            self._guardian.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._guardian.kill()
            self._guardian.wait()
        self._sweep(deadline)

    def _sweep(self, deadline: float) -> None:
        """What a guardian does, for the case that both of its processes were killed."""
        held: set[str] = set()
        while left := process_tree.marked(self._token, self.pid):
            held |= process_tree.segments_of(left)
            process_tree.kill_all(left)
            if time.monotonic() > deadline:
                raise EngineFailed(f"processes {left} of an engine do not end", hint="see dmesg")
            time.sleep(0.02)
        process_tree.unlink_unheld(held)
        shutil.rmtree(self.tmp_dir, ignore_errors=True)

    def __enter__(self) -> Guarded:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _hand_over(guardian: subprocess.Popen[bytes], spec: Spec) -> dict[str, str]:
    """Give the guardian its spec; what it answers: `pid` and `tmp_dir`, or `error`."""
    assert guardian.stdin is not None
    assert guardian.stdout is not None
    try:
        guardian.stdin.write(json.dumps(spec).encode() + b"\n")
        guardian.stdin.flush()
    except BrokenPipeError:
        return {}
    with guardian.stdout as answer:
        line = answer.readline()
    told: dict[str, str] = json.loads(line) if line else {}
    return told


def _close_stdin(guardian: subprocess.Popen[bytes]) -> None:
    """Let go of the death pipe; a guardian that is gone already is no error."""
    if guardian.stdin is not None:
        with suppress(BrokenPipeError):
            guardian.stdin.close()
