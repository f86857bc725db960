"""A stage's process as the engine sees it: its own session, a channel to it, stop and kill."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from mimo.backends.malloc import with_huge_pages
from mimo.pipeline.channel import Channel, Message
from mimo.pipeline.context import StageSpec
from mimo.pipeline.processes import LABEL, end_leftovers
from mimo.run_dir.attempt import Work
from mimo.run_dir.files import write_json
from mimo.tracking.environment import clean_environment

_ROOT = Path(__file__).resolve().parents[2]
_GRACE_S = 10.0


class StageProcess:
    """One running stage. `redact` takes secrets out of what it prints and tells before anything keeps it."""

    def __init__(self, spec: StageSpec, redact: Callable[[str], str]) -> None:
        work = Work(Path(spec.work))
        self.label = spec.label
        self._messages: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._channel, theirs = Channel.pair()
        spec_file = work.folder / "spec.json"
        write_json(spec_file, asdict(spec))
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "mimo.pipeline.child", str(spec_file), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(theirs.fileno(),),
                env=_environment(spec.label),
            )
        self.pid = self._process.pid
        self._threads = [
            threading.Thread(target=self._pump, args=(work.log, redact), name="stage-log", daemon=True),
            threading.Thread(target=self._listen, args=(redact,), name="stage-channel", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def message(self, timeout_s: float) -> Message | None:
        """The next message, or None when there is none within the time."""
        with contextlib.suppress(queue.Empty):
            return self._messages.get(timeout=timeout_s)
        return None

    def answer(self, message: Message) -> None:
        """Send an answer to the stage."""
        self._channel.send(message)

    def poll(self) -> int | None:
        """The exit code once the process has ended (negative: the signal)."""
        return self._process.poll()

    def stop(self) -> None:
        """Ask for a stop at the next safe point."""
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the stage's process group; what is in other sessions goes in `close`."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> list[str]:
        """Make sure that nothing of the stage is left; the names of what had to be killed."""
        if self._process.poll() is None:
            self.kill()
        left = end_leftovers(self.pid, self.label, grace_s=_GRACE_S)
        for thread in self._threads:
            thread.join(timeout=5.0)
        self._channel.close()
        return left

    def drain(self) -> list[Message]:
        """What is still in the queue after the end."""
        found = []
        while (message := self.message(0.0)) is not None:
            found.append(message)
        return found

    def _pump(self, log: Path, redact: Callable[[str], str]) -> None:
        assert self._process.stdout is not None
        with open(log, "ab", buffering=0) as file, self._process.stdout as lines:
            for line in lines:
                with contextlib.suppress(OSError):
                    file.write(redact(line.decode(errors="replace")).encode())

    def _listen(self, redact: Callable[[str], str]) -> None:
        for message in self._channel.messages(redact):
            self._messages.put(message)


def _environment(label: str) -> dict[str, str]:
    env = with_huge_pages(clean_environment(os.environ), keep_freed=False)
    paths = [str(_ROOT), *filter(None, [env.get("PYTHONPATH")])]
    return {**env, LABEL: label, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}
