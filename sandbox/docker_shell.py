"""The persistent bash of a container, over one attached program: output and control are its two outputs.

As in `sandbox.shell`, but the daemon copies the two outputs independently: a record on one says nothing of
what is still on its way on the other. So every command's output stands between two marks, fresh random words;
who steals a mark (a process may read its own output pipe) only spoils the output of its own box.
"""

from __future__ import annotations

import os
import secrets
import shlex
import time
from collections.abc import Callable

from sandbox.docker_stream import OUT, Stream
from sandbox.shell import Output, Records, Report, exit_code

_MARK_WAIT_S = 0.5
_KILL_WAIT_S = 5.0

SUPERVISOR = r"""
exec 3>&2 4>&1 2>/dev/null
IFS= read -r t || exit 0
builtin printf '%s\0ready\0\0' "$t" >&3
while IFS= read -r go; do
    case $go in "go $t "*) end=${go##* } ;; *) continue ;; esac
    ( exec 2>&4; exec -a bash "$0" --norc --noprofile )
    builtin printf '%s\0%d\0\0' "$t" $? >&3
    builtin printf '%s' "$end" >&4
done
"""
"""Starts a new shell when one ends. Ends at end of input."""


class _Between:
    """Passes on what stands between the first and the second mark."""

    def __init__(self, begin: str, ends: tuple[str, ...], output: Output) -> None:
        self._begin = begin.encode()
        self._ends = [end.encode() for end in ends]
        self._output = output
        self._held = b""
        self._begun = self.complete = False

    def add(self, data: bytes) -> None:
        if self.complete:
            return
        data = self._held + data
        if not self._begun:
            at = data.find(self._begin)
            if at < 0:
                self._held = data[-(len(self._begin) - 1) :]
                return
            self._begun, data = True, data[at + len(self._begin) :]
        at = min((place for place in map(data.find, self._ends) if place >= 0), default=-1)
        if at >= 0:
            self._output.add(data[:at])
            self._held, self.complete = b"", True
            return
        hold = min(len(data), len(self._begin) - 1)
        self._output.add(data[: len(data) - hold])
        self._held = data[len(data) - hold :]

    def finish(self) -> None:
        """No more is to come: what was held back in case it were a mark is output."""
        if self._begun and not self.complete:
            self._output.add(self._held)
        self.complete = True


class DockerShell:
    """Our side of it. Not for several threads at once. `since` is when the command began, as the box says."""

    def __init__(self, stream: Stream, folder: str) -> None:
        self._stream = stream
        self._token = secrets.token_hex(16)
        self._records = Records()
        self._end_of_shell = ""
        self.folder = folder
        """Where the shell stood after the last command."""
        self.since = ""
        self._needs_start = True

    @property
    def ended(self) -> bool:
        """Whether the supervisor has gone."""
        return self._stream.ended

    def wait_ready(self, timeout_s: float) -> str:
        """Empty once the supervisor answers; otherwise what it printed before it ended or ran out of time."""
        said, deadline = Output(4096), time.monotonic() + timeout_s
        pending = memoryview(f"{self._token}\n".encode())
        while not self._stream.ended:
            if time.monotonic() > deadline:
                return "no answer in time"
            pending, pieces = self._stream.exchange(pending, deadline - time.monotonic())
            for kind, data in pieces:
                said.add(data if kind == OUT else b"")
                self._records.add(b"" if kind == OUT else data)
            if self._records.take(self._token) is not None:
                return ""
        return said.text().strip() or "it ended at once"

    def run(self, command: str, output: Output, timeout_s: float, on_timeout: Callable[[], None]) -> Report:
        """The report of one command; `on_timeout` must kill it (the shell with it), then its end is
        awaited."""
        token, begin, end = (secrets.token_hex(16) for _ in range(3))
        lines = ""
        if self._needs_start:
            self._end_of_shell = secrets.token_hex(16)
            lines += f"go {self._token} {self._end_of_shell}\n"
            lines += f"cd -- {shlex.quote(self.folder)} 2>/dev/null\n"
        self._needs_start, self.since = False, ""
        lines += f"{{ builtin printf {begin} >&4; builtin printf '{begin}\\0%s\\0\\0' "
        lines += '"$EPOCHREALTIME" >&3; } 2>/dev/null\n'
        lines += f"eval {shlex.quote(command)} </dev/null >&4 2>&4 3>&- 4>&-\n"
        lines += f"{{ builtin printf '{token}\\0%d\\0%s\\0' " + '"$?" "$PWD" >&3; '
        lines += f"builtin printf {end} >&4; }} 2>/dev/null\n"
        between = _Between(begin, (end, self._end_of_shell), output)
        data = lines.encode(errors="surrogateescape")
        report = self._talk(data, (token, begin), between, timeout_s, on_timeout)
        between.finish()
        self._needs_start = report.shell_ended
        return report

    def _talk(
        self,
        data: bytes,
        tokens: tuple[str, str],
        between: _Between,
        timeout_s: float,
        on_timeout: Callable[[], None],
    ) -> Report:
        """Write, collect output until the command's record comes, or the supervisor's own, or the end."""
        pending, report, timed_out = memoryview(data), None, False
        deadline = time.monotonic() + timeout_s
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                if report is not None:
                    return report
                if timed_out:
                    return Report(None, False, False, True)
                timed_out, deadline = True, time.monotonic() + _KILL_WAIT_S
                self._hear(tokens[1])
                on_timeout()
                continue
            pending, pieces = self._stream.exchange(pending, left)
            for kind, piece in pieces:
                if kind == OUT:
                    between.add(piece)
                else:
                    self._records.add(piece)
            if report is None:
                self._hear(tokens[1])
                report = self._report(tokens[0], timed_out)
                deadline = deadline if report is None else time.monotonic() + _MARK_WAIT_S
            if report is not None and between.complete:
                return report
            if self._stream.ended:
                return report or Report(None, True, True, timed_out)

    def _hear(self, begin: str) -> None:
        """Note when the command began."""
        if not self.since:
            record = self._records.take(begin)
            self.since = "" if record is None else record[0].decode("ascii", "replace")

    def _report(self, token: str, timed_out: bool) -> Report | None:
        done = self._records.take(token)
        if done is not None:
            self.folder = os.fsdecode(done[1]) or self.folder
            return Report(exit_code(done[0]), False, False, timed_out)
        ended = self._records.take(self._token)
        if ended is not None:
            return Report(None if timed_out else exit_code(ended[0]), True, False, timed_out)
        return None

    def close(self) -> None:
        """Hang up."""
        self._stream.close()
