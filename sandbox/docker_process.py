"""The programs of a started container: keeper, shell and warden, and our three connections to them."""

from __future__ import annotations

import contextlib

from docker import APIClient
from docker.errors import APIError, NotFound

from sandbox.base import BoxSpec
from sandbox.docker_create import environment
from sandbox.docker_host import Host
from sandbox.docker_shell import SUPERVISOR, DockerShell
from sandbox.docker_stream import Stream
from sandbox.docker_warden import WARDEN, Warden
from sandbox.errors import SandboxError
from sandbox.local_setup import SHELL
from sandbox.snapshot import BOX_UID

_READY_S = 60.0
_USER = f"{BOX_UID}:{BOX_UID}"


class BoxPrograms:
    """They run from construction until `kill`; a killed container can be started again over its files."""

    def __init__(self, host: Host, container: str, spec: BoxSpec, folder: str) -> None:
        """Start the container unless it runs, and a shell that stands in `folder`.

        Raises:
            SandboxError: the daemon refused, or the shell does not answer.
        """
        self._host, self._container = host, container
        self._streams: list[Stream] = []
        try:
            with host.api() as client:
                self._start(client, spec)
            self.shell = DockerShell(self._streams[1], folder)
            self.warden = Warden(self._streams[2])
            said = self.shell.wait_ready(_READY_S)
            if said:
                raise SandboxError(f"the box did not start: {said}", hint="run `mimo doctor`")
            self.hits = self.warden.hits() or {}
        except BaseException:
            self.let_go()
            raise

    def _start(self, client: APIClient, spec: BoxSpec) -> None:
        keeper = self._host.attach(f"/containers/{self._container}/attach?stream=1&stdin=1")
        self._streams.append(Stream(keeper))
        client.start(self._container)
        for script, env in ((SUPERVISOR, environment(spec)), (WARDEN, {})):
            command = [f"/{SHELL}", "--norc", "--noprofile", "-c", script, f"/{SHELL}"]
            workdir = spec.workdir if script is SUPERVISOR else "/"
            made = client.exec_create(
                self._container, command, stdin=True, user=_USER, environment=env, workdir=workdir
            )
            started = self._host.attach(f"/exec/{made['Id']}/start", {"Detach": False, "Tty": False})
            self._streams.append(Stream(started))

    @property
    def is_broken(self) -> bool:
        """Whether the shell or the warden has gone: killed from inside, by a limit, or by us."""
        return self.shell.ended or self.warden.ended

    def kill_command(self, since: str) -> None:
        """Kill the shell and what started since then; every program of the box if that fails."""
        if not self.warden.end_since(since):
            self.kill()

    def kill(self) -> None:
        """SIGKILL to the container; the kernel kills all its processes. Returns when they are dead."""
        with self._host.api() as client, contextlib.suppress(NotFound):
            try:
                client.kill(self._container)
            except APIError as error:
                if error.status_code != 409:  # 409: it does not run
                    raise

    def let_go(self) -> None:
        """Hang up on all three; without its keeper the container ends."""
        for stream in self._streams:
            stream.close()


def written_bytes(client: APIClient, container: str) -> int:
    """Size of the container's own layer, as its daemon sees it: no permission in the box hides a file.

    docker-py's `inspect_container` cannot ask for it.
    """
    answer = client.get(f"{client.base_url}/v{client.api_version}/containers/{container}/json?size=1")
    if answer.status_code != 200:
        raise SandboxError(f"the container {container} cannot be measured: {answer.text.strip()}")
    return int(answer.json().get("SizeRw") or 0)


def died_of_memory(host: Host, container: str) -> bool:
    """Whether the daemon says so of a container that ended (runtimes without the kernel's counters)."""
    with host.api() as client:
        state = client.inspect_container(container)["State"]
    return bool(state.get("OOMKilled")) and not state.get("Running")
