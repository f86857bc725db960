"""Runs inside a box, as a command of a rollout would, and prints what it sees as one JSON object.

Only the standard library: the box has nothing of ours.
"""

import contextlib
import ctypes
import errno
import json
import os
import socket
import stat
import time

TARGETS = [
    ("tcp", "1.1.1.1", 53), ("tcp", "1.1.1.1", 443), ("tcp", "8.8.8.8", 443), ("tcp", "140.82.112.3", 22),
    ("tcp", "169.254.169.254", 80), ("tcp", "172.17.0.1", 2375), ("tcp", "10.0.2.2", 80),
    ("udp", "1.1.1.1", 53), ("udp", "8.8.8.8", 123),
    ("tcp6", "2606:4700:4700::1111", 443), ("udp6", "2001:4860:4860::8888", 53),
]  # fmt: skip
SOCKETS = (
    "/var/run/docker.sock",
    "/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/run/podman/podman.sock",
)
SECRETS = (
    "/run/secrets",
    "/var/run/secrets",
    "/etc/shadow",
    "/root/.ssh",
    "/root/.netrc",
    "/etc/pip.conf",
    "/etc/resolv.conf",
)
WAIT_S = 0.3


def text(path: str, most: int = 200_000) -> str | None:
    try:
        with open(path, "rb") as file:
            return file.read(most).decode("utf-8", "replace")
    except OSError:
        return None


def rows(path: str) -> list[str]:
    return (text(path) or "").splitlines()


def processes() -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - no pathlib where every import counts
        if name.isdigit():
            status = text(f"/proc/{name}/stat") or ""
            parent = status.rpartition(")")[2].split()[1:2]
            found.append(
                {
                    "pid": int(name),
                    "parent": int(parent[0]) if parent else 0,
                    "cmdline": (text(f"/proc/{name}/cmdline") or "").replace("\0", " ").strip(),
                    "name": status.partition("(")[2].rpartition(")")[0],
                    "environ": text(f"/proc/{name}/environ"),
                }
            )
    return found


def descriptors() -> dict[str, dict[str, object]]:
    found = {}
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        with contextlib.suppress(OSError):
            kind = stat.S_IFMT(os.fstat(int(name)).st_mode)
            target = os.readlink(f"/proc/self/fd/{name}")  # noqa: PTH115
            found[name] = {"to": target, "kind": kind}
    return found


def reach(kind: str, host: str, port: int) -> str | None:
    """None when there is no way, else how far it came."""
    family = socket.AF_INET6 if kind.endswith("6") else socket.AF_INET
    udp = kind.startswith("udp")
    try:
        link = socket.socket(family, socket.SOCK_DGRAM if udp else socket.SOCK_STREAM)
    except OSError:
        return None
    with link:
        link.setblocking(False)
        code = link.connect_ex((host, port))
        if udp and code == 0:
            try:
                link.send(b"\0" * 12)
                return "sent"
            except OSError:
                return None
        if code in (0, errno.EINPROGRESS):
            return "connected" if code == 0 else "a route exists"
    return None


def names() -> str | None:
    started = time.monotonic()
    try:
        socket.setdefaulttimeout(WAIT_S)
        socket.getaddrinfo("example.com", 443)
        return "resolved"
    except OSError:
        return None if time.monotonic() - started < 4 else "a resolver was asked"


def other_families() -> list[str]:
    found = []
    for name in ("AF_VSOCK", "AF_PACKET", "AF_BLUETOOTH"):
        family = getattr(socket, name, None)
        if family is None:
            continue
        kind = socket.SOCK_STREAM if name in ("AF_VSOCK", "AF_BLUETOOTH") else socket.SOCK_RAW
        try:
            link = socket.socket(family, kind)
        except OSError:
            continue
        with link:
            if name == "AF_VSOCK":
                link.settimeout(WAIT_S)
                try:
                    link.connect((2, 1))
                except OSError:
                    continue
            found.append(name)
    return found


def unix_sockets() -> list[str]:
    found = [row.split()[-1] for row in rows("/proc/net/unix")[1:] if "@" in row or "/" in row]
    for path in SOCKETS:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link, contextlib.suppress(OSError):
            link.settimeout(WAIT_S)
            link.connect(path)
            found.append(path)
    return found


def files_in(folder: str, most: int = 200) -> list[str]:
    found = []
    for at, _, names_ in os.walk(folder):
        found += [f"{at}/{name}" for name in names_]
        if len(found) > most:
            break
    return found


def writable(skip: tuple[str, ...]) -> list[str]:
    """Mount points and folders of the root that the box's user may write to, beyond its own."""
    found = []
    for row in rows("/proc/self/mountinfo"):
        at = row.split()[4]
        if os.access(at, os.W_OK) and not any(at == own or at.startswith(f"{own}/") for own in skip):
            found.append(at)
    return sorted(set(found))


def new_user_namespace() -> bool:
    pid = os.fork()
    if pid == 0:
        os._exit(7 if ctypes.CDLL(None).unshare(0x10000000) == 0 else 0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


def main() -> None:
    workdir = os.getcwd()  # noqa: PTH109
    print(json.dumps({
        "workdir": workdir,
        "env": dict(os.environ),
        "hostname": socket.gethostname(),
        "processes": processes(),
        "descriptors": descriptors(),
        "status": {row.partition(":\t")[0]: row.partition(":\t")[2] for row in rows("/proc/self/status")},
        "mounts": rows("/proc/self/mountinfo"),
        "cgroup": text("/proc/self/cgroup"),
        "devices": sorted(os.listdir("/dev")),  # noqa: PTH208
        "sys": any(files_in(f"/sys/{name}", 0) for name in ("kernel", "devices", "firmware")),
        "interfaces": [line.split(":")[0].strip() for line in rows("/proc/net/dev")[2:]],
        "routes": rows("/proc/net/route")[1:],
        "listeners": [line.split()[1] for name in ("tcp", "tcp6") for line in rows(f"/proc/net/{name}")[1:]],
        "reached": {":".join(map(str, target)): how for target in TARGETS if (how := reach(*target))},
        "resolver": names(),
        "families": other_families(),
        "sockets": unix_sockets(),
        "secrets": [path for path in SECRETS if os.access(path, os.R_OK)],
        "writable": writable((workdir, "/tmp", "/dev/shm", "/proc", "/dev/pts", "/dev")),
        "left": files_in("/tmp") + files_in("/dev/shm") + files_in("/var/tmp") + files_in("/run"),
        "user_namespace": new_user_namespace(),
    }))  # fmt: skip


main()
