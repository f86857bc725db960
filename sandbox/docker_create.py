"""What a container is made with: no network, no capability, our filter, limits, and nothing of the host."""

from __future__ import annotations

import functools
import json
from typing import Any

from docker import APIClient
from docker.types import LogConfig, Ulimit

from sandbox.base import BoxSpec
from sandbox.local_setup import DEFAULT_ENV, SHELL
from sandbox.seccomp import docker_profile
from sandbox.snapshot import BOX_UID

KEEPER_UID = BOX_UID + 1
"""The user of the process that holds the box: not root, and out of the reach of the box's own user."""
KEEPER = "IFS= read -r _"
"""The box's first program. Its input is ours: when we die it ends, and the kernel ends the box with it."""
OWN_PROCESSES = 7
"""init, keeper, supervising bash, shell, warden and one program of the warden's: not the box's own use."""
_OUTPUT_SLACK_MB = 64
_MASKED = {
    "/proc": (
        "acpi", "asound", "interrupts", "kcore", "keys", "latency_stats", "sched_debug", "scsi",
        "timer_list", "timer_stats",
    ),
    "/sys": (
        "block", "bus", "class", "dev", "devices", "firmware", "hypervisor", "kernel", "module", "power",
        "fs/bpf", "fs/btrfs", "fs/ext4", "fs/f2fs", "fs/fuse", "fs/nfs", "fs/pstore", "fs/selinux", "fs/xfs",
    ),
}  # fmt: skip
"""All that tells of the machine; the first row is the daemon's own list, which naming any replaces. The box's
own cgroup stays: its limits are counted there."""


def tmp_bytes(spec: BoxSpec) -> int:
    """Size of /tmp and of /dev/shm: as in the back end `local`."""
    return max(16, min(spec.limits.disk_mb, spec.limits.memory_mb // 4)) << 20


def host_config(client: APIClient, spec: BoxSpec) -> dict[str, Any]:
    """The part of a container that concerns its machine (SANDBOX.md 6.1 gives the reason of each)."""
    limits, size = spec.limits, tmp_bytes(spec)
    file_bytes = (limits.disk_mb + _OUTPUT_SLACK_MB) << 20
    memory = limits.memory_mb << 20
    config: dict[str, Any] = client.create_host_config(
        network_mode="none",
        cap_drop=["ALL"],
        security_opt=["no-new-privileges", f"seccomp={_filter()}"],
        mem_limit=memory,
        memswap_limit=memory,
        pids_limit=limits.processes + OWN_PROCESSES,
        ulimits=[
            Ulimit(name="core", soft=0, hard=0),
            Ulimit(name="fsize", soft=file_bytes, hard=file_bytes),
            Ulimit(name="nofile", soft=1024, hard=4096),
        ],
        tmpfs={"/tmp": f"size={size},mode=1777,exec,nosuid,nodev"},
        shm_size=size,
        ipc_mode="private",
        init=True,
        log_config=LogConfig(type="none"),
        dns=["127.0.0.1"],
        dns_search=["."],
        runtime=spec.runtime,
    )
    config["MaskedPaths"] = [f"{top}/{name}" for top, names in _MASKED.items() for name in names]
    return config


@functools.cache
def _filter() -> str:
    return json.dumps(docker_profile())


def environment(spec: BoxSpec) -> dict[str, str]:
    """The whole environment of the box's shell."""
    return {**DEFAULT_ENV, **spec.env}


def create(client: APIClient, spec: BoxSpec, image: str, name: str, labels: dict[str, str]) -> str:
    """The id of a new container that has not been started."""
    facts = client.inspect_image(image)  # type: ignore[no-untyped-call]
    inherited = [item.partition("=")[0] for item in facts["Config"].get("Env") or ()]
    made = client.create_container(
        image,
        name=name,
        entrypoint=[f"/{SHELL}"],
        command=["--norc", "--noprofile", "-c", KEEPER],
        user=f"{KEEPER_UID}:{KEEPER_UID}",
        hostname="sbx",
        environment=["HOSTNAME", *inherited],  # without a value: the daemon then sets none
        working_dir="/",
        stdin_open=True,
        labels=labels,
        host_config=host_config(client, spec),
        healthcheck={"Test": ["NONE"]},
    )
    return str(made["Id"])
