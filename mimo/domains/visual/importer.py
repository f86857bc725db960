"""From a task folder to a Task: the reference rendered once, in a box, into the private files."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from mimo.domains.base import OpenSpec, TaskStore
from mimo.domains.coding.importer import BASE_ENV, WORKDIR, copy_tree, import_task
from mimo.domains.visual.drawing import Refused
from mimo.domains.visual.render import NotRendered
from mimo.domains.visual.verify import REFERENCE, rendered, wanted_of
from mimo.domains.visual.write import FACTS
from mimo.errors import RecipeError
from mimo.run_dir.files import write_atomic
from mimo.types import Limits, Task
from sandbox.base import BoxLimits, BoxSpec, Sandbox
from sandbox.rootfs import ensure_rootfs

RENDER_S = 60.0
IMAGES = "images"
"""Where a store holds the images that tasks show; a task's `images` are paths below the store."""
_LOOK = {
    "resvg": "python3 -c 'from xml.dom.minidom import parse; "
    'print(len(parse("{file}").getElementsByTagName("*")), "elements")\'',
    "chromium": "test -s {file} && echo not empty",
}
"""What a policy can ask of its file where a harness has tests: whether it can be read, not what it shows."""


def import_picture(
    folder: Path, store: TaskStore, *, limits: Limits, history: str, cache: Path, open_spec: OpenSpec
) -> Task:
    """The task of the folder, its reference rendered into the private files (and `images`, if it is shown).

    Raises:
        RecipeError: no task folder, or a reference that cannot be rendered.
        MachineLacks: no renderer here, or no Chromium for a page.
    """
    facts = json.loads((folder / FACTS).read_bytes())
    wanted = wanted_of(facts)
    solution = folder / "solution" / "files" / wanted.file
    store.root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=store.root, prefix=".import-") as scratch:

        def open_box(mounts: Mapping[str, Path]) -> Sandbox:
            return open_spec(_spec(folder / "environment" / "repo", mounts, limits, cache))

        try:
            picture, _ = rendered(wanted, solution.read_bytes(), open_box, RENDER_S)
        except (Refused, NotRendered) as error:
            raise RecipeError(f"{solution}: the reference cannot be rendered: {error}") from error
        whole = Path(scratch) / "task"
        copy_tree(folder, whole)
        (whole / REFERENCE).write_bytes(picture)
        task = import_task(whole, store, limits=limits, history=history, cache=cache, open_spec=open_spec)
    verifier = replace(
        task.verifier,
        kind="render",
        protected=(),
        command=_LOOK[wanted.renderer].format(file=wanted.file),
        expect={**task.verifier.expect, **facts},
    )
    return replace(task, verifier=verifier, images=_shown(picture, store) if facts["seen"] else ())


def _shown(picture: bytes, store: TaskStore) -> tuple[str, ...]:
    """The picture among the store's images, named by its digest."""
    path = f"{IMAGES}/{hashlib.sha256(picture).hexdigest()}.png"
    (store.root / IMAGES).mkdir(exist_ok=True)
    write_atomic(store.root / path, picture)
    return (path,)


def _spec(tree: Path, mounts: Mapping[str, Path], limits: Limits, cache: Path) -> BoxSpec:
    return BoxSpec(
        rootfs=ensure_rootfs(cache),
        snapshot=tree,
        workdir=WORKDIR,
        env=dict(BASE_ENV),
        limits=BoxLimits(
            wall_s=max(limits.wall_s, RENDER_S + 30.0),
            command_s=limits.command_s,
            memory_mb=limits.memory_mb,
            processes=limits.processes,
            disk_mb=limits.disk_mb,
            output_bytes=limits.output_bytes,
        ),
        readonly=mounts,
    )
