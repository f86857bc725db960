"""Docker daemons: one a machine, by Unix socket or plain TCP; every failure becomes one of our errors."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import queue
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import docker
import requests
from docker.errors import APIError, DockerException, NotFound

from sandbox.errors import SandboxError, SandboxUnavailable

_HERE = "unix:///var/run/docker.sock"
_SCHEMES = ("unix://", "tcp://", "http://")
_TIMEOUT_S = 120.0
_FIRST_TIMEOUT_S = 10.0
_MOST_IDLE = 64
_MISSING = (
    "start its daemon (`dockerd`, systemctl start docker); may this user open its socket (group docker)?"
)


def default_address() -> str:
    """Where this machine's daemon is: DOCKER_HOST, else the usual socket."""
    return os.environ.get("DOCKER_HOST") or _HERE


class Host:
    """One daemon. `address` is its URL, `cores` its processors, `runtimes` the ones it knows."""

    def __init__(self, address: str) -> None:
        """Ask it who it is.

        Raises:
            SandboxUnavailable: nothing answers there, it refuses us, or the address is of another kind.
        """
        if not address.startswith(_SCHEMES):
            hint = (
                "write unix:///PATH or tcp://HOST:PORT; for a machine reached by ssh forward its socket: "
                "ssh -N -L /run/user/1000/box1.sock:/var/run/docker.sock HOST"
            )
            raise SandboxUnavailable(f"{address!r} is no Docker address that can be used", hint=hint)
        self.address = address
        self._version: str | None = None
        self._idle: queue.Queue[docker.APIClient] = queue.Queue(_MOST_IDLE)
        try:
            client = _client(address, "auto", _FIRST_TIMEOUT_S)
            facts = client.info()
        except (DockerException, requests.RequestException, OSError) as error:
            message = f"no Docker daemon answers at {address}: {_reason(error)}"
            raise SandboxUnavailable(message, hint=_MISSING) from error
        self._version = client.api_version
        client.close()
        self.cores = int(facts.get("NCPU") or 1)
        self.runtimes = tuple(sorted(facts.get("Runtimes") or {}))
        self.facts = {
            "version": str(facts.get("ServerVersion")),
            "storage": str(facts.get("Driver")),
            "cgroup": f"v{facts.get('CgroupVersion') or 1}",
        }
        self.starting = threading.BoundedSemaphore(2 * self.cores)
        """Starts are nearly serial in the daemon: more at once only makes each slower."""
        self.boxes = 0
        self.seen: set[str] = set()
        """Images that are known to be there."""
        self.making = threading.Lock()

    @contextlib.contextmanager
    def api(self, timeout_s: float = _TIMEOUT_S) -> Iterator[docker.APIClient]:
        """A client for this thread alone, for as long as the statement lasts.

        Args:
            timeout_s: longest silence of the daemon within one call.

        Raises:
            SandboxError: the daemon refused.
            SandboxUnavailable: it does not answer any more.
        """
        try:
            client = self._idle.get_nowait()
        except queue.Empty:
            client = _client(self.address, self._version, _TIMEOUT_S)
        client.timeout = timeout_s  # type: ignore[assignment]
        try:
            yield client
        except APIError as error:
            self._keep(client)
            said = f"Docker at {self.address}: {error.explanation or error}"
            raise SandboxError(said, hint="`docker info` and the daemon's log say more") from error
        except (DockerException, requests.RequestException, ConnectionError) as error:
            client.close()
            message = f"Docker at {self.address} does not answer: {_reason(error)}"
            raise SandboxUnavailable(message, hint=_MISSING) from error
        except BaseException:
            client.close()
            raise
        else:
            self._keep(client)

    def _keep(self, client: docker.APIClient) -> None:
        """Close its connections, of which docker-py keeps one for every URL it asked, and keep the rest."""
        client.close()
        with contextlib.suppress(queue.Full):
            self._idle.put_nowait(client)

    def attach(self, path: str, body: dict[str, object] | None = None) -> tuple[socket.socket, bytes]:
        """The connection that has become the input and output of a program, and what came on it already.

        docker-py gives such a connection only from inside its HTTP client, which keeps it open and may have
        read the first bytes of the stream.

        Args:
            path: of the API, without the version.
            body: what is sent as JSON.

        Raises:
            SandboxError: the daemon refused.
            SandboxUnavailable: it does not answer any more.
        """
        data = json.dumps(body or {}).encode()
        head = (
            f"POST /v{self._version}{path} HTTP/1.1\r\nHost: docker\r\nContent-Type: application/json\r\n"
            f"Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        try:
            link = self._connect()
        except OSError as error:
            message = f"Docker at {self.address} does not answer: {_reason(error)}"
            raise SandboxUnavailable(message, hint=_MISSING) from error
        try:
            link.sendall(head.encode() + data)
            answer = b""
            while b"\r\n\r\n" not in answer:
                piece = link.recv(4096)
                if not piece:
                    raise SandboxUnavailable(f"Docker at {self.address} hung up", hint=_MISSING)
                answer += piece
        except OSError as error:
            link.close()
            message = f"Docker at {self.address} does not answer: {_reason(error)}"
            raise SandboxUnavailable(message, hint=_MISSING) from error
        except SandboxUnavailable:
            link.close()
            raise
        head_end = answer.index(b"\r\n\r\n") + 4
        status = answer.split(b" ", 2)[1]
        if status not in (b"101", b"200"):
            link.close()
            said = answer[head_end:].decode(errors="replace").strip()
            raise SandboxError(f"Docker at {self.address} refused to attach: {said or status.decode()}")
        return link, answer[head_end:]

    def _connect(self) -> socket.socket:
        if self.address.startswith("unix://"):
            link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            link.settimeout(_TIMEOUT_S)
            try:
                link.connect(self.address.removeprefix("unix://"))
            except OSError:
                link.close()
                raise
            return link
        name, _, port = self.address.partition("://")[2].rstrip("/").rpartition(":")
        link = socket.create_connection((name.strip("[]"), int(port)), timeout=_TIMEOUT_S)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return link

    def require_runtime(self, runtime: str | None) -> None:
        """Raise SandboxUnavailable where this daemon does not know the runtime."""
        if runtime is not None and runtime not in self.runtimes:
            known = ", ".join(self.runtimes) or "none"
            raise SandboxUnavailable(
                f"Docker at {self.address} has no runtime {runtime!r}; it has {known}",
                hint="name it in the daemon's /etc/docker/daemon.json, or set runtime.sandbox.runtime",
            )

    def remove(self, container: str) -> bool:
        """Kill and remove a container with its volumes; whether there was one."""
        with self.api() as client:
            try:
                client.remove_container(container, force=True, v=True)
            except NotFound:
                return False
            except APIError as error:
                if error.status_code == 409 and "in progress" in str(error.explanation):
                    return False  # somebody else is at it
                raise
        return True


def _client(address: str, version: str | None, timeout_s: float) -> docker.APIClient:
    return docker.APIClient(base_url=address, version=version, timeout=timeout_s)  # type: ignore[arg-type]


def _reason(error: BaseException) -> str:
    """The innermost cause in a few words: the layers above only repeat it."""
    text = str(error)
    inner: Any = error
    while inner is not None:
        if isinstance(inner, OSError) and inner.strerror:
            return str(inner.strerror)
        inner = inner.__cause__ or inner.__context__
    for words in ("Permission denied", "Connection refused", "No such file", "timed out"):
        if words in text:
            return words
    return text[:200]


_guard = threading.Lock()
_hosts: dict[str, Host] = {}


def _forget_after_fork() -> None:
    """A forked copy must not share connections with its parent."""
    _hosts.clear()


os.register_at_fork(after_in_child=_forget_after_fork)


def host_at(address: str) -> Host:
    """The daemon at this address, asked once a process."""
    with _guard:
        if address not in _hosts:
            _hosts[address] = Host(address)
        return _hosts[address]


def require_hosts(addresses: Sequence[str], runtime: str | None = None) -> list[Host]:
    """All the daemons, checked; no address means this machine's.

    Raises:
        SandboxUnavailable: one does not answer or lacks the runtime; the message names every such host.
    """
    found, problems, hint = [], [], None
    for address in addresses or (default_address(),):
        try:
            host = host_at(address)
            host.require_runtime(runtime)
            found.append(host)
        except SandboxUnavailable as error:
            problems.append(str(error))
            hint = hint or error.hint
    if problems:
        raise SandboxUnavailable("; ".join(problems), hint=hint)
    return found


def take_host(addresses: Sequence[str], runtime: str | None) -> Host:
    """The daemon with the fewest open boxes of this process, the first of equals; one box more is counted."""
    hosts = require_hosts(addresses, runtime)
    with _guard:
        host = min(hosts, key=lambda host: host.boxes)
        host.boxes += 1
    return host


def give_host(host: Host) -> None:
    """One box less on this daemon."""
    with _guard:
        host.boxes -= 1


@functools.cache
def machine() -> str:
    """An opaque name of this machine: one daemon can serve several, and none removes another's boxes."""
    texts = [socket.gethostname()]
    for name in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        with contextlib.suppress(OSError):
            texts.append(Path(name).read_text().strip())
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
