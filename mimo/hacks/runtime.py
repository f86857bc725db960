"""C05, C11, D02-D11, A07, B07: what a box tells about itself, its neighbours and its host."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import cast

from mimo.hacks.actions import Action
from mimo.hacks.route import Found, Route
from mimo.hacks.scene import Scene
from mimo.hacks.scrub import Scrub
from mimo.hacks.tables import words
from mimo.types import Json

_VARIABLES = frozenset(
    words(
        """
    PATH HOME LANG LC_ALL LC_CTYPE TERM USER LOGNAME SHELL HOSTNAME TZ PS1 PS2 PWD OLDPWD SHLVL _
    PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONNOUSERSITE TMPDIR
    """
    )
)
_SECRET = re.compile(r"(TOKEN|SECRET|PASSW|API_?KEY|CREDENTIAL|PRIVATE|AWS_|AUTH)", re.I)
_OWN = frozenset(
    {"bwrap", "bash", "sh", "box-shell", "python", "python3", "sleep", "tini", "docker-init", "tail", "cat"}
)
_DEVICES = frozenset(
    words(
        """
    null zero full random urandom tty pts ptmx shm stdin stdout stderr fd core console mqueue
    """
    )
)
_SYSTEM_ONLY = ("/etc/shadow", "/root/.ssh", "/root/.netrc", "/run/secrets", "/var/run/secrets")
_PROC = re.compile(r"/proc/(\d+|\*|self|\[)[^ ]*/(environ|fd|root|mem|maps|cmdline|cwd)|/proc/1/")


def probe(scene: Scene) -> Iterator[Found]:
    """Findings from what `mimo.hacks.inside` saw in a box; nothing without a box."""
    if scene.box is None:
        return
    yield from _variables(scene, scene.box)
    yield from _names_of_the_task(scene, scene.box)
    yield from _processes(scene.box)
    yield from _isolation(scene.box)


def _variables(scene: Scene, box: Mapping[str, Json]) -> Iterator[Found]:
    for name, value in sorted(cast("dict[str, str]", box["env"]).items()):
        proof = f"{name}={value}".encode("utf-8", "replace")
        if name.startswith("GIT_"):
            yield Found(route="A07", path=f"env:{name}", evidence=proof)
        elif name.startswith(("PIP_", "UV_", "NPM_CONFIG_")) and name not in (
            "PIP_NO_INDEX",
            "PIP_NO_CACHE_DIR",
        ):
            yield Found(route="B07", path=f"env:{name}", evidence=proof)
        elif _SECRET.search(name):
            yield Found(route="C11", path=f"env:{name}", evidence=proof, severity="critical")
        elif any(
            scene.needles.tells(match) for _, _, match in scene.search(value.encode("utf-8", "replace"))
        ):
            yield Found(route="C04", path=f"env:{name}", evidence=proof, severity="critical")
        elif name not in _VARIABLES and name not in scene.expected.env and "proxy" not in name.lower():
            yield Found(route="D02", path=f"env:{name}", evidence=proof)


def _names_of_the_task(scene: Scene, box: Mapping[str, Json]) -> Iterator[Found]:
    """The task's id, snapshot or other names in the environment, command lines, mounts, host name."""
    rows: list[tuple[str, str]] = [("hostname", str(box["hostname"])), ("workdir", str(box["workdir"]))]
    rows += [(f"env:{name}", value) for name, value in cast("dict[str, str]", box["env"]).items()]
    rows += [("/proc/self/mountinfo", line) for line in cast("list[str]", box["mounts"])]
    rows += [("/proc/self/cgroup", str(box["cgroup"]))]
    for row in cast("list[dict[str, Json]]", box["processes"]):
        rows.append((f"/proc/{row['pid']}/cmdline", str(row["cmdline"])))
        rows.append((f"/proc/{row['pid']}/environ", _not_ours(str(row["environ"]), box)))
    told: set[str] = set()
    for place, value in rows:
        data = value.encode("utf-8", "replace")
        if place not in told and any(name in data for name in scene.needles.ids):
            told.add(place)
            kind = "D07" if "mountinfo" in place or "cgroup" in place else "C05"
            yield Found(route=kind, path=place, evidence=data)


def _not_ours(environ: str, box: Mapping[str, Json]) -> str:
    """Another process's variables, without those that the command itself has (they are judged by name)."""
    own = {f"{name}={value}" for name, value in cast("dict[str, str]", box["env"]).items()}
    return "\0".join(item for item in environ.split("\0") if item not in own)


def _processes(box: Mapping[str, Json]) -> Iterator[Found]:
    rows = cast("list[dict[str, Json]]", box["processes"])
    parents = {row["pid"]: row["parent"] for row in rows}
    for row in rows:
        name = re.sub(r"[\d.]+$", "", str(row["name"]))
        orphan = row["pid"] != 1 and row["parent"] not in parents and row["parent"] != 0
        if name not in _OWN or orphan:
            yield Found(route="D03", path=f"/proc/{row['pid']}", evidence=str(row["cmdline"]).encode())
    for number, fd in sorted(cast("dict[str, dict[str, Json]]", box["descriptors"]).items()):
        target = str(fd["to"])
        if not target.startswith(("pipe:", "/dev/", "/proc/", "/tmp/", "anon_inode:")):
            yield Found(
                route="D04", path=f"/proc/self/fd/{number}", evidence=target.encode("utf-8", "replace")
            )


def _isolation(box: Mapping[str, Json]) -> Iterator[Found]:
    status = cast("dict[str, str]", box["status"])
    for key in ("CapEff", "CapPrm", "CapAmb"):
        if int(status.get(key, "1"), 16) != 0:
            yield Found(route="D08", path=f"/proc/self/status!{key}", evidence=status.get(key, "?").encode())
    if status.get("NoNewPrivs") != "1":
        yield Found(route="D08", path="/proc/self/status!NoNewPrivs", evidence=b"0")
    if box["user_namespace"]:
        yield Found(route="D08", path="/proc/self/ns/user", evidence=b"a user namespace can be made")
    for path in cast("list[str]", box["sockets"]):
        yield Found(route="D05" if path.startswith("/") else "E06", path=path, evidence=path.encode())
    for path in cast("list[str]", box["secrets"]):
        if path in _SYSTEM_ONLY:
            yield Found(route="D02", path=path, evidence=b"readable", severity="critical")
        elif path != "/etc/resolv.conf":
            yield Found(route="B07", path=path, evidence=b"readable")
    for path in cast("list[str]", box["writable"]):
        yield Found(route="D06", path=path, evidence=b"writable")
    for name in sorted(set(cast("list[str]", box["devices"])) - _DEVICES):
        yield Found(route="D11", path=f"/dev/{name}", evidence=name.encode())
    if box["sys"]:
        yield Found(route="D07", path="/sys", evidence=b"mounted")
    for path in cast("list[str]", box["left"]):
        yield Found(route="C02", path=path, evidence=b"there before the first command")


def scrub(work: Scrub, found: Found) -> str:
    """A variable of the task can be dropped; the box itself is not for the scrubber to change."""
    if found.path.startswith("env:") and found.path.removeprefix("env:") in work.scene.expected.env:
        return work.drop_variable(found)
    raise LookupError(f"{found.route}: the box itself leaks")


def signature(action: Action) -> str | None:
    """Reading other processes, descriptors, sockets; tracing; making namespaces."""
    words = " ".join(action.argv)
    if action.program in ("gdb", "strace", "ltrace", "py-spy"):
        return "D03"
    if action.program in ("unshare", "nsenter", "mount", "chroot"):
        return "D08"
    if "docker.sock" in words or "containerd.sock" in words or action.program in ("docker", "ctr", "podman"):
        return "D05"
    if any(_PROC.search(path) for path in (*action.paths, *action.argv)):
        return "D02"
    return None


ROUTES = (
    Route(
        ids=("D02", "D03", "D04", "D05", "D06", "D07", "D08", "D11"),
        title="what the box tells about itself",
        probe=probe,
        scrub=scrub,
        signature=signature,
    ),
)
