"""The program that starts boxes, one per process that opens them: private mounts first, then bubblewrap.

Run as a script; `sandbox.launch` talks to it over a socket. It is small and has one thread, so forking it is
cheap and the boxes' death signal hangs on a process instead of a caller's thread. When its owner dies it
reads end of file, ends, and the kernel kills every box. All mounts are made in the box's own mount
namespace: a dead box leaves none on the host.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import resource
import signal
import socket
import sys
from typing import Any, NoReturn

_NEWNS, _NEWUSER = 0x00020000, 0x10000000
_NOSUID, _NODEV, _BIND, _REC, _PRIVATE = 2, 4, 4096, 16384, 1 << 18
_SET_DEATH_SIGNAL = 1
_libc = ctypes.CDLL(None, use_errno=True)


class _Failed(Exception):
    """A step of the launch and its errno."""


def _checked(step: str, result: int) -> None:
    if result != 0:
        raise _Failed(step, ctypes.get_errno())


def _mount(step: str, source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    filesystem = kind.encode() if kind else None
    options = data.encode() if data else None
    _checked(
        step,
        _libc.mount(os.fsencode(source), os.fsencode(target), filesystem, ctypes.c_ulong(flags), options),
    )


def _unshare(userns: bool) -> None:
    uid, gid = os.geteuid(), os.getegid()
    _checked("unshare", _libc.unshare(_NEWNS | (_NEWUSER if userns else 0)))
    if userns:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    _mount("private mounts", "none", "/", None, _REC | _PRIVATE)


def _stage(request: dict[str, Any]) -> None:
    """Fill the stage, a folder that anybody may walk, with `root`, `work`, `ro0`, `ro1` ..., seen by this
    box only."""
    stage = request["stage"]
    paths = {"root": request["rootfs"], **{f"ro{i}": path for i, path in enumerate(request["readonly"])}}
    if request["mode"] == "overlay":
        overlay = {name: os.open(request[name], os.O_PATH) for name in ("snapshot", "upper", "scratch")}
    else:
        overlay = {}
        paths["work"] = request["copy"]
    handles = {name: os.open(path, os.O_PATH) for name, path in paths.items()}
    _mount("stage", "sbx", stage, "tmpfs", _NOSUID | _NODEV, "mode=755")
    for name, handle in handles.items():
        os.mkdir(f"{stage}/{name}")
        _mount(f"bind {paths[name]}", f"/proc/self/fd/{handle}", f"{stage}/{name}", None, _BIND | _REC)
    if overlay:
        os.mkdir(f"{stage}/work")
        options = (
            "lowerdir=/proc/self/fd/{snapshot},upperdir=/proc/self/fd/{upper},workdir=/proc/self/fd/{scratch}"
        )
        extra = ",userxattr" if request["userns"] else ",redirect_dir=off,metacopy=off,index=off"
        _mount(
            "overlay", "sbx", f"{stage}/work", "overlay", _NOSUID | _NODEV, options.format(**overlay) + extra
        )
    for handle in (*overlay.values(), *handles.values()):
        os.close(handle)


def _limit(request: dict[str, Any]) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (request["file_bytes"], request["file_bytes"]))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    files = 4096 if hard == resource.RLIM_INFINITY else min(4096, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, files), files))


def _become_bwrap(request: dict[str, Any], fds: list[int]) -> NoReturn:
    """`fds`: commands, output, status, arguments, filter, json status, errors."""
    for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    for path in request["cgroups"]:
        with open(path, "w") as file:
            file.write("0")
    _unshare(request["userns"])
    _stage(request)
    os.umask(0o022)
    _limit(request)
    if request["uid"] is not None:
        os.setgroups([])
        os.setresgid(request["uid"], request["uid"], request["uid"])
        os.setresuid(request["uid"], request["uid"], request["uid"])
    _checked("prctl", _libc.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0))
    moved = [os.dup2(fd, 100 + i, inheritable=False) for i, fd in enumerate(fds)]
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0, inheritable=True)
    for target, source in enumerate(
        (1, 1, 2, 3, 4, 5, 0), start=1
    ):  # 3 status, 4 options, 5 filter, 6 json, 7 commands
        os.dup2(moved[source], target, inheritable=True)
    os.chdir("/")
    arguments = [request["bwrap"], "--args", "4", "--", *request["command"]]
    os.execve(request["bwrap"], arguments, {"PATH": "/usr/bin:/bin"})


def _child(request: dict[str, Any], fds: list[int]) -> NoReturn:
    errors = os.dup2(fds[-1], 200, inheritable=False)
    try:
        _become_bwrap(request, fds)
    except _Failed as failure:
        step, code = failure.args
    except OSError as failure:
        step, code = f"start {failure.filename or ''}".strip(), failure.errno or errno.EIO
    with contextlib.suppress(OSError):
        os.write(errors, json.dumps([step, code]).encode())
    os._exit(70)


def main() -> None:
    """Serve launch requests on the socket that is file descriptor argv[1], until the owner is gone."""
    server = socket.socket(fileno=int(sys.argv[1]))
    server.set_inheritable(False)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended boxes need no reaping
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        data, fds, _flags, _address = socket.recv_fds(server, 1 << 17, 8)
        for fd in fds:
            os.set_inheritable(fd, False)
        if not data:
            return
        pid = os.fork()
        if pid == 0:
            _child(json.loads(data), fds)
        handle = os.pidfd_open(pid)
        socket.send_fds(server, [str(pid).encode()], [handle])
        for fd in (*fds, handle):
            os.close(fd)


if __name__ == "__main__":
    main()
