"""Real prepared tasks for tests: generated repairs (and, where asked, others) in a store, without the
pipeline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mimo.domains import load_domain
from mimo.domains.base import TaskStore
from mimo.hacks.needles import Secrets
from mimo.records import to_line
from mimo.types import Json, Limits, Task

LIMITS = Limits(
    wall_s=60.0, turn_s=30.0, command_s=10.0, memory_mb=512, processes=64, disk_mb=64, output_bytes=16384
)
GENERATED: Mapping[str, Json] = {"kind": "generated", "domain": "coding", "seed": 7, "train": 4, "heldout": 0}
PARSE: Mapping[str, Json] = {
    "kind": "pypi-pair",
    "domain": "coding",
    "package": "parse",
    "old": "1.20.0",
    "new": "1.20.1",
    "split": "heldout",
    "sha256_old": "bd28bae37714b45d5894d77160a16e2be36b64a3b618c81168b3684676aa498b",
    "sha256_new": "09002ca350ad42e76629995f71f7b518670bcf93548bdde3684fd55d2be51975",
}


@dataclass(frozen=True, slots=True)
class Prepared:
    """A store as prepare-env leaves it, with its tasks."""

    store: TaskStore
    tasks: list[Task]


def prepare(source: Mapping[str, Json], root: Path, cache: Path) -> Prepared:
    """The tasks of a recipe's entry in `root/store`, with `tasks.jsonl`."""
    domain = load_domain(str(source["domain"]))
    store = TaskStore(root / "store")
    store.root.mkdir(parents=True)
    tasks = []
    for task_id in domain.list_sources(source):
        folder = domain.build(source, task_id, root / "folders")
        tasks.append(domain.import_folder(folder, store, limits=LIMITS, history="past", cache=cache))
    (store.root / "tasks.jsonl").write_bytes(b"".join(map(to_line, tasks)))
    return Prepared(store, tasks)


def secrets(prepared: Prepared, task: Task) -> Secrets:
    """As the stage gathers them."""
    from mimo.stages.environment_probe import secrets_of

    return secrets_of(task, prepared.store)
