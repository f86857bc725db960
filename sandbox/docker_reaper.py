"""Containers carry their owner's name in labels: those of dead processes of this machine are removed."""

from __future__ import annotations

import logging
from dataclasses import asdict

from docker.errors import APIError

from sandbox.docker_host import Host, machine
from sandbox.errors import SandboxError
from sandbox.state import Owner

_PREFIX = "mimo.box."
_FIELDS = ("label", "pid", "start", "boot", "pid_namespace")
_log = logging.getLogger(__name__)
_swept: set[str] = set()


def labels(owner: Owner) -> dict[str, str]:
    """The labels of a box's container."""
    facts = asdict(owner)
    return {f"{_PREFIX}machine": machine(), **{_PREFIX + name: str(facts[name]) for name in _FIELDS}}


def sweep(host: Host) -> list[str]:
    """Remove the containers of dead processes of this machine; the labels of their boxes."""
    removed = []
    with host.api() as client:
        found = client.containers(all=True, filters={"label": f"{_PREFIX}machine={machine()}"})
    for container in found:
        owner = _owner(container["Labels"])
        if owner is None or not owner.is_gone():
            continue
        try:
            if host.remove(container["Id"]):
                removed.append(owner.label)
        except (SandboxError, APIError) as error:
            _log.warning("a dead process's container is left behind (%s)", error)
    return removed


def sweep_once(host: Host) -> None:
    """The first box of a process on a daemon removes what dead ones left there."""
    if host.address in _swept:
        return
    _swept.add(host.address)
    removed = sweep(host)
    if removed:
        _log.info("removed %d containers of dead processes: %s", len(removed), ", ".join(removed))


def _owner(given: dict[str, str]) -> Owner | None:
    try:
        facts = {name: given[_PREFIX + name] for name in _FIELDS}
        return Owner(
            label=facts["label"],
            pid=int(facts["pid"]),
            start=int(facts["start"]),
            boot=facts["boot"],
            pid_namespace=facts["pid_namespace"],
        )
    except (KeyError, ValueError):
        return None
