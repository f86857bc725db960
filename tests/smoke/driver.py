"""Drives `mimo` as a user does, in a state folder of its own, and looks at what it leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
RECIPE = str(ROOT / "recipes" / "pro.yaml")


class Driver:
    """One MIMO_HOME and the commands run on it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.env = {**os.environ, "MIMO_HOME": str(home)}

    def command(self, *args: str) -> list[str]:
        """`mimo ARGS` with the smoke profile's recipe."""
        return [sys.executable, "-m", "mimo", *args]

    def run(self, *args: str, timeout_s: float = 1500) -> subprocess.CompletedProcess[str]:
        """The finished command; its output is captured."""
        return subprocess.run(
            self.command(*args),
            env=self.env,
            cwd=ROOT,
            text=True,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )

    def start(self, *args: str) -> subprocess.Popen[str]:
        """The command, running, its events (JSON lines) on stdout."""
        return subprocess.Popen(
            self.command(*args),
            env=self.env,
            cwd=ROOT,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def kill_at(self, when: Callable[[Mapping[str, object]], bool], *, after_s: float = 0.0) -> bool:
        """Run the recipe and `kill -9` the orchestrator `after_s` after the first event that `when` wants.

        False when the run ended before.
        """
        process = self.start("run", RECIPE, "--profile", "smoke", "--json")
        assert process.stdout is not None
        for line in process.stdout:
            if when(json.loads(line)):
                time.sleep(after_s)
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
                return True
        process.wait()
        return False

    def output(self, stage: str) -> Path:
        """The newest published output of `stage`."""
        found = sorted(
            (path.parent for path in (self.home / "store" / stage).glob("*/manifest.json")),
            key=lambda folder: folder.stat().st_mtime,
        )
        return found[-1]

    def processes(self) -> list[str]:
        """Command lines of processes that belong to this state folder."""
        return [line for pid, line in _command_lines() if pid != os.getpid() and str(self.home) in line]

    def left_behind(self, *, within_s: float = 20.0) -> list[str]:
        """Processes, mounts and temporary folders of this state folder, after a grace period; [] is clean."""
        until = time.monotonic() + within_s
        while (left := [*self.processes(), *self._mounts()]) and time.monotonic() < until:
            time.sleep(0.5)
        return left

    def _mounts(self) -> list[str]:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
        return [line for line in lines if str(self.home) in line]


def _command_lines() -> Iterator[tuple[int, str]]:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            environment = (entry / "environ").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        yield int(entry.name), f"{line} {environment}"


def shared_memory() -> set[str]:
    """Names of Python's segments in /dev/shm (an engine's; other programs use other names)."""
    return {path.name for path in Path("/dev/shm").glob("psm_*")}
