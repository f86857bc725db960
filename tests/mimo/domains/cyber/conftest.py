"""A store with a few built programs, and boxes to run them in; made once for the folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from mimo.domains.base import BoxFactory, TaskStore
from mimo.domains.cyber.domain import Cyber
from mimo.types import Json, Limits, Task, Verdict
from sandbox import Changes, FileChange, Sandbox
from sandbox.rootfs import ensure_rootfs
from tests.mimo.domains.lab import local_boxes

LIMITS = Limits(
    wall_s=120.0, turn_s=30.0, command_s=20.0, memory_mb=512, processes=64, disk_mb=64, output_bytes=16384
)
NOTHING = Changes(files=(), capped=False)


@dataclass(frozen=True, kw_only=True)
class Lab:
    """The cyber domain with a store, a root file system and boxes."""

    domain: Cyber
    store: TaskStore
    cache: Path
    rootfs: Path
    folders: Path

    def boxes(self, task: Task) -> BoxFactory:
        return local_boxes(self.rootfs, task)

    def open(self, task: Task) -> Sandbox:
        return self.boxes(task)(self.store.snapshot(task), {})

    def verdict(self, task: Task, changes: Changes) -> Verdict:
        return self.domain.verify(task, changes, self.store, self.boxes(task))

    def trigger(self, task: Task) -> bytes:
        data = self.domain.reference(task, self.store).files[0].data
        assert data is not None
        return data

    def imported(self, folder: Path) -> Task:
        return self.domain.import_folder(folder, self.store, limits=LIMITS, history="past", cache=self.cache)


def changes_of(files: Mapping[str, str | bytes | None]) -> Changes:
    rows = []
    for path, data in sorted(files.items()):
        raw = data.encode() if isinstance(data, str) else data
        rows.append(FileChange(path=path, data=raw, mode=None if raw is None else 0o755))
    return Changes(files=tuple(rows), capped=False)


def generated_source(**source: Json) -> dict[str, Json]:
    return {"kind": "generated", "domain": "cyber", "seed": 5, "train": 0, "heldout": 0, **source}


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    root = tmp_path_factory.mktemp("cyber")
    cache = root / "cache"
    return Lab(
        domain=Cyber(),
        store=TaskStore(root / "store"),
        cache=cache,
        rootfs=ensure_rootfs(cache),
        folders=root / "folders",
    )


@pytest.fixture(scope="session")
def built(lab: Lab) -> Callable[..., Task]:
    """Makes one imported task: `built("double-free", level=3)`; the same arguments are built once."""
    made: dict[str, Task] = {}

    def make(family: str, *, level: int, split: str = "train", seed: int = 5) -> Task:
        entry = generated_source(families=[family], level=level, seed=seed, **{split: 1})
        [task_id] = lab.domain.list_sources(entry)
        if task_id not in made:
            made[task_id] = lab.imported(lab.domain.build(entry, task_id, lab.folders))
        return made[task_id]

    return make
