"""The persistent bash of a box and how one command's end is told from its output.

Output and control travel on different pipes. The end of a command is a record `token NUL code NUL folder
NUL` on a pipe that the command's processes do not inherit, with a fresh random token for every command;
whatever a command prints is only output. A small supervising bash starts a new shell when one ends. Both run
from an unreadable copy of bash (see `sandbox.rootfs`): the kernel then lets no other process of the box look
into their memory or pipes.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import shlex
import signal
import time
from collections.abc import Callable
from typing import Literal, NamedTuple

from sandbox.base import ExecResult

_READ_BYTES = 1 << 18
_MOST_STATUS_BYTES = 1 << 16
_TAIL_WAIT_S = 0.02

SUPERVISOR = r"""
exec 0<&7 7<&-
IFS= read -r t || exit 0
exec 4>&1 2>/dev/null
[ -z "$1" ] || ulimit -u "$1"
builtin printf '%s\0ready\0\0' "$t" >&3
while IFS= read -r go; do
    [ "$go" = "go $t" ] || continue
    ( exec 2>&4; exec -a bash "$0" --norc --noprofile )
    builtin printf '%s\0%d\0\0' "$t" $? >&3
done
"""
"""Argument: the most processes of its user, or nothing. Ends at end of input. Commands come on descriptor 7,
which bubblewrap's own process in the box does not keep: others could open it there."""


class Report(NamedTuple):
    """What came back: exit code, whether the shell itself ended, whether the whole box did, and the clock."""

    code: int | None
    shell_ended: bool
    box_ended: bool
    timed_out: bool


class Output:
    """The first and last bytes of a stream, never more than `most` of them in memory."""

    def __init__(self, most: int) -> None:
        self._first_bytes = (most + 1) // 2
        self._last_bytes = most // 2
        self._first = bytearray()
        self._last = bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        """Take in the next bytes."""
        self.total += len(data)
        room = self._first_bytes - len(self._first)
        if room > 0:
            self._first += data[:room]
            data = data[room:]
        self._last += data
        if len(self._last) > 2 * self._last_bytes + 65536:
            del self._last[: len(self._last) - self._last_bytes]

    @property
    def truncated(self) -> bool:
        """Whether bytes in the middle are lost."""
        return self.total > self._first_bytes + self._last_bytes

    def text(self) -> str:
        """The kept bytes as text; undecodable bytes become U+FFFD, a cut is marked by a line."""
        last = bytes(self._last[max(0, len(self._last) - self._last_bytes) :])
        if not self.truncated:
            return (bytes(self._first) + last).decode(errors="replace")
        cut = self.total - len(self._first) - len(last)
        mark = f"\n[... {cut} bytes left out ...]\n"
        return bytes(self._first).decode(errors="replace") + mark + last.decode(errors="replace")


def exec_result(
    report: Report,
    output: Output,
    limit: Literal["memory", "processes", "disk", "wall"] | None,
    *,
    struck: bool,
    seconds: float,
) -> ExecResult:
    """What the caller of `exec` gets; `struck` says that we killed the command for a limit."""
    killed = report.timed_out or report.box_ended or struck
    killed = killed or (limit is not None and report.code in (128 + 9, 128 + signal.SIGXFSZ))
    return ExecResult(
        exit_code=None if killed else report.code,
        output=output.text(),
        truncated=output.truncated,
        timed_out=report.timed_out and limit is None,
        limit=limit,
        seconds=seconds,
    )


class Records:
    """What came on the control pipe, as records `token NUL code NUL folder NUL`."""

    def __init__(self) -> None:
        self._data = b""

    def add(self, data: bytes) -> None:
        """Take in the next bytes; of a flood only the end is kept."""
        self._data = (self._data + data)[-_MOST_STATUS_BYTES:]

    def take(self, token: str) -> tuple[bytes, bytes] | None:
        """The code and folder of the record that carries `token`, taken out with all that came before it."""
        start = self._data.find(token.encode() + b"\0")
        fields = self._data[start:].split(b"\0", 3)
        if start < 0 or len(fields) < 4:
            return None
        self._data = fields[3]
        return fields[1], fields[2]


def exit_code(field: bytes) -> int:
    """The exit code a record carries; 1 where it is none."""
    return 0 if field == b"ready" else int(field) if field.isdigit() else 1


class Shell:
    """Our side of the shell's three pipes. Not for several threads at once."""

    def __init__(self, commands: int, output: int, status: int, folder: str) -> None:
        self._commands, self._output, self._status = commands, output, status
        self._token = secrets.token_hex(16)
        self._records = Records()
        self._folder = folder
        self._needs_start = True
        for fd in (commands, output, status):
            os.set_blocking(fd, False)

    @property
    def folder(self) -> str:
        """Where the shell stood after the last command."""
        return self._folder

    def wait_ready(self, timeout_s: float) -> str:
        """Empty once the supervisor answers; otherwise what the box printed before it ended or the time ran
        out."""
        said = Output(4096)
        report = self._talk(
            f"{self._token}\n".encode(), self._token, said, time.monotonic() + timeout_s, None
        )
        if report.code is None:
            return said.text().strip() or (
                "no answer in time" if report.timed_out else "the box ended at once"
            )
        return ""

    def run(self, command: str, output: Output, timeout_s: float, on_timeout: Callable[[], None]) -> Report:
        """The report of one command; `on_timeout` must kill it (the shell with it), then its end is
        awaited."""
        self._drain(Output(0))
        token = secrets.token_hex(16)
        lines = (
            f"go {self._token}\ncd -- {shlex.quote(self._folder)} 2>/dev/null\n" if self._needs_start else ""
        )
        self._needs_start = False
        lines += f"eval {shlex.quote(command)} </dev/null >&4 2>&4 3>&- 4>&-\n"
        lines += "{ builtin printf '%s\\0%d\\0%s\\0' " + token + ' "$?" "$PWD" >&3; } 2>/dev/null\n'
        data = lines.encode(errors="surrogateescape")
        report = self._talk(data, token, output, time.monotonic() + timeout_s, on_timeout)
        self._needs_start = report.shell_ended
        return report

    def _talk(
        self, data: bytes, token: str, output: Output, deadline: float, on_timeout: Callable[[], None] | None
    ) -> Report:
        """Write `data`, collect output, until a record with `token` or the supervisor's own comes, or the
        end."""
        poll = select.poll()
        poll.register(self._output, select.POLLIN)
        poll.register(self._status, select.POLLIN)
        poll.register(self._commands, select.POLLOUT)
        pending = memoryview(data)
        timed_out = False
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                if timed_out or on_timeout is None:
                    return Report(None, False, False, True)
                timed_out = True
                deadline = time.monotonic() + 5
                on_timeout()
                continue
            ready = dict(poll.poll(left * 1000))
            if self._output in ready and not self._read_output(output):
                poll.unregister(self._output)
            if self._commands in ready:
                pending = self._write(pending)
                if not pending:
                    poll.unregister(self._commands)
            if self._status in ready:
                report = self._read_status(token, timed_out)
                if report is not None:
                    self._drain(output)
                    return report

    def _write(self, pending: memoryview) -> memoryview:
        """What is still to be written."""
        try:
            return pending[os.write(self._commands, pending) :]
        except BlockingIOError:
            return pending
        except OSError:
            return pending[len(pending) :]  # the box has ended; the status pipe tells

    def _read_output(self, output: Output) -> bool:
        """Whether more may come."""
        try:
            data = os.read(self._output, _READ_BYTES)
        except BlockingIOError:
            return True
        output.add(data)
        return bool(data)

    def _drain(self, output: Output) -> None:
        """Take in what is in the pipe already; a process that goes on writing is read no longer than a
        moment."""
        until = time.monotonic() + _TAIL_WAIT_S
        while time.monotonic() < until:
            try:
                data = os.read(self._output, _READ_BYTES)
            except BlockingIOError:
                return
            if not data:
                return
            output.add(data)

    def _read_status(self, token: str, timed_out: bool) -> Report | None:
        try:
            data = os.read(self._status, _READ_BYTES)
        except BlockingIOError:
            return None
        if not data:
            return Report(None, True, True, timed_out)
        self._records.add(data)
        done = self._records.take(token)
        if done is not None:
            self._folder = os.fsdecode(done[1]) or self._folder
            return Report(exit_code(done[0]), False, False, timed_out)
        ended = self._records.take(self._token)
        if ended is not None:
            return Report(None if timed_out else exit_code(ended[0]), True, False, timed_out)
        return None

    def close(self) -> None:
        """Close our ends; the supervisor ends when it reads end of input."""
        for fd in (self._commands, self._output, self._status):
            with contextlib.suppress(OSError):
                os.close(fd)
        self._commands = self._output = self._status = -1
