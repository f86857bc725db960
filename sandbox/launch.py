"""Asks the launcher process for a box; the launcher itself is `sandbox/launcher.py`."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox.errors import SandboxError, SandboxLost
from sandbox.seccomp import filter_program

_STAGES = ("/mnt", "/media", "/srv", "/opt", "/tmp")
STAGE = next((folder for folder in _STAGES if Path(folder).is_dir()), "/tmp")
"""Where the launcher collects a box's mounts, inside the box's own mount namespace."""


class LaunchFailed(SandboxError):
    """The launcher could not start bubblewrap; `step` names what failed, `code` is its errno."""

    def __init__(self, step: str, code: int) -> None:
        super().__init__(f"a box could not be started: {step}: {os.strerror(code)}")
        self.step = step
        self.code = code


@dataclass(frozen=True, kw_only=True, slots=True)
class Launched:
    """A started bubblewrap: process handle and our ends of its pipes. `init` is process 1 of the box on the
    host."""

    pid: int
    handle: int
    init: int
    init_handle: int
    commands: int
    output: int
    status: int


class _Launcher:
    """The launcher process of this process and the socket to it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        script = str(Path(__file__).with_name("launcher.py"))
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", script, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={"PATH": "/usr/bin:/bin"},
                cwd="/",
                start_new_session=True,
            )
        self.socket = ours

    def ask(self, request: bytes, fds: Sequence[int]) -> tuple[int, int]:
        with self.lock:
            socket.send_fds(self.socket, [request], list(fds))
            # not socket.recv_fds: it drops the flag, and other threads may be starting programs
            data, sent, _flags, _address = self.socket.recvmsg(
                64, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC
            )
        if not data or not sent:
            raise SandboxLost("the launcher of boxes has died", hint="open the box again")
        return int(data), int(struct.unpack("i", sent[0][2][:4])[0])

    def close(self) -> None:
        self.socket.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)


_guard = threading.Lock()
_current: list[_Launcher] = []


def _forget_after_fork() -> None:
    """A forked copy must not hold the socket, or the launcher would outlive its owner."""
    for launcher in _current:
        launcher.socket.close()
    _current.clear()


os.register_at_fork(after_in_child=_forget_after_fork)


def _launcher() -> _Launcher:
    """This process's launcher, started on first use, again after a fork or after it died."""
    with _guard:
        if _current and _current[0].process.poll() is None:
            return _current[0]
        for dead in _current:
            dead.socket.close()
        _current[:] = [_Launcher()]
        return _current[0]


def stop_launcher() -> None:
    """End the launcher and with it every box of this process; the next box starts a new one."""
    with _guard:
        for launcher in _current:
            launcher.close()
        _current.clear()


def _pipe(reader: contextlib.ExitStack, writer: contextlib.ExitStack) -> tuple[int, int]:
    """A pipe whose two ends belong to two owners."""
    ends = os.pipe()
    reader.callback(os.close, ends[0])
    writer.callback(os.close, ends[1])
    return ends


def _memory_file(owner: contextlib.ExitStack, data: bytes) -> int:
    fd = os.memfd_create("sbx", os.MFD_CLOEXEC)
    owner.callback(os.close, fd)
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _read_all(fd: int, stop: bytes | None = None) -> bytes:
    data = b""
    while piece := os.read(fd, 4096):
        data += piece
        if stop and stop in data:
            break
    return data


def _started(errors: int, status: int, output: int) -> int:
    """The host's id of process 1 of the box; raises what the launcher or bubblewrap failed with."""
    failure = _read_all(errors)
    if failure:
        raise LaunchFailed(*json.loads(failure))
    first = _read_all(status, b"\n")
    if not first:
        said = os.read(output, 4096).decode(errors="replace").strip()
        raise SandboxError(f"bubblewrap failed: {said or 'no message'}", hint="run `mimo doctor`")
    return int(json.loads(first.split(b"\n", 1)[0])["child-pid"])


atexit.register(stop_launcher)


def launch(request: Mapping[str, object], arguments: Sequence[str]) -> Launched:
    """A running bubblewrap with our ends of its pipes.

    Args:
        request: what `sandbox.launcher` needs (rootfs, mode, folders, uid, cgroups, command, ...).
        arguments: bubblewrap's options; they travel by file descriptor, so the box cannot read them.

    Raises:
        LaunchFailed: a step before bubblewrap failed.
        SandboxError: bubblewrap itself failed; the message holds what it printed.
    """
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
        commands_r, commands = _pipe(theirs, ours)
        output, output_w = _pipe(ours, theirs)
        status, status_w = _pipe(ours, theirs)
        with contextlib.ExitStack() as here:
            json_r, json_w = _pipe(here, theirs)
            errors_r, errors_w = _pipe(here, theirs)
            options = _memory_file(theirs, b"".join(os.fsencode(argument) + b"\0" for argument in arguments))
            seccomp = _memory_file(theirs, filter_program())
            fds = [commands_r, output_w, status_w, options, seccomp, json_w, errors_w]
            pid, handle = _launcher().ask(json.dumps(request).encode(), fds)
            ours.callback(os.close, handle)
            theirs.close()
            init = _started(errors_r, json_r, output)
        init_handle = os.pidfd_open(init)
        ours.pop_all()
    return Launched(
        pid=pid,
        handle=handle,
        init=init,
        init_handle=init_handle,
        commands=commands,
        output=output,
        status=status,
    )
