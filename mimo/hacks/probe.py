"""The probes of all routes over one environment, and the scrubbing of what they found."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from mimo.hacks.catalogue import ROUTES
from mimo.hacks.route import Found, Route
from mimo.hacks.scene import Scene
from mimo.hacks.scrub import Scrub
from mimo.types import Json
from sandbox.base import Sandbox
from sandbox.errors import SandboxError

_SCRIPT = Path(__file__).with_name("inside.py")
_TIMEOUT_S = 20.0
_OUTPUT_BYTES = 4_000_000
_FACTS = frozenset({"C08", "C09", "C10", "C14"})
"""Facts about a file say nothing of what is in it."""


def look_inside(box: Sandbox) -> dict[str, Json]:
    """What a command of a rollout can see in this fresh box.

    Raises:
        SandboxError: the probe could not run there (no Python, killed, no answer): nothing is known, so the
            environment must not count as clean.
    """
    script = _SCRIPT.read_text()
    command = f"python3 -I -S - <<'END-OF-PROBE'\n{script}\nEND-OF-PROBE\n"
    result = box.exec(command, timeout_s=_TIMEOUT_S, max_output_bytes=_OUTPUT_BYTES)
    try:
        return cast("dict[str, Json]", json.loads(result.output.strip().splitlines()[-1]))
    except (ValueError, IndexError) as error:
        said = result.output.strip()[-300:]
        raise SandboxError(
            f"the probe gave no answer in the box (exit {result.exit_code}): {said}",
            hint="the root file system needs python3",
        ) from error


def find_leaks(scene: Scene) -> list[Found]:
    """What every probe finds, without doubles, in the order of the catalogue."""
    found: dict[tuple[str, str], Found] = {}
    scene.named.clear()
    for route in ROUTES:
        here = [item for item in (route.probe(scene) if route.probe else ()) if not _covered(scene, item)]
        scene.named |= {item.path.split("!")[0] for item in here if item.route not in _FACTS}
        for item in here:
            found.setdefault((item.route, item.path), item)
    return list(found.values())


def _covered(scene: Scene, found: Found) -> bool:
    """Whether a folder that it lies in was reported by an earlier route."""
    folder = found.path.split("!")[0].rpartition("/")[0]
    return bool(folder) and not found.path.startswith("/") and scene.is_named(folder)


def leaks_only(findings: Iterable[Found]) -> list[Found]:
    """Those that count: more than information."""
    return [found for found in findings if found.severity != "info"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Cleaned:
    """A work tree after scrubbing: the copy, its base commit, variables to drop, what was done."""

    tree: Path
    commit: str | None
    drop_env: frozenset[str]
    fixes: tuple[str, ...]


class CannotScrub(Exception):
    """No rule closes a finding; the message names its route."""


def scrub_copy(scene: Scene, findings: Sequence[Found], folder: Path) -> Cleaned:
    """A cleaned copy of the scene's work tree in a new folder under `folder`.

    Raises:
        CannotScrub: a finding has no rule, or its rule does not reach it.
    """
    tree = Path(tempfile.mkdtemp(dir=folder, prefix="scrub-")) / "tree"
    shutil.copytree(scene.root, tree, symlinks=True)
    work = Scrub(root=tree, scene=scene)
    fixes = [_close(work, found) for found in findings]
    commit = scene.commit
    if work.rebuild or work.without:
        if scene.git is None or commit is None:
            raise CannotScrub("A01: git cannot be rebuilt without a readable base commit")
        commit = scene.git.rebuild(commit, tree, squash=work.squash, without=work.without)
    return Cleaned(
        tree=tree, commit=commit, drop_env=frozenset(work.drop_env), fixes=tuple(dict.fromkeys(fixes))
    )


def _close(work: Scrub, found: Found) -> str:
    route = _with_rule(found)
    if route is None or route.scrub is None:
        raise CannotScrub(f"{found.route}: no rule closes it")
    try:
        return route.scrub(work, found)
    except (LookupError, ValueError, OSError) as error:
        raise CannotScrub(f"{found.route}: {error}") from error


def _with_rule(found: Found) -> Route | None:
    """The route whose rule fits: a finding about the box is the box's, whatever id it borrows."""
    outside = found.path.startswith(("/", "env:", "net:")) or found.path in ("hostname", "workdir")
    if outside:
        return next(route for route in ROUTES if "D02" in route.ids)
    return next((route for route in ROUTES if found.route in route.ids and route.scrub), None)
