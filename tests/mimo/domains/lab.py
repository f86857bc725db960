"""A generated domain with a store of one task a family and level, and boxes to act and be judged in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mimo.domains.base import BoxFactory, Domain, TaskStore
from mimo.harnesses import load_harness
from mimo.types import Json, Limits, Task, Verdict
from sandbox import BoxLimits, BoxSpec, Changes, Sandbox, open_sandbox
from sandbox.rootfs import ensure_rootfs

LIMITS = Limits(
    wall_s=120.0, turn_s=60.0, command_s=30.0, memory_mb=512, processes=64, disk_mb=64, output_bytes=16384
)
NOTHING = Changes(files=(), capped=False)


def local_boxes(rootfs: Path, task: Task) -> BoxFactory:
    """Opens boxes of the task, to act in or to be judged in."""
    limits = BoxLimits(
        wall_s=90.0, command_s=30.0, memory_mb=512, processes=64, disk_mb=64, output_bytes=16384
    )

    def open_box(snapshot: Path, mounts: Mapping[str, Path]) -> Sandbox:
        spec = BoxSpec(
            rootfs=rootfs,
            snapshot=snapshot,
            workdir=task.environment.workdir,
            env=task.environment.env,
            limits=limits,
            readonly=mounts,
        )
        return open_sandbox("local", spec)

    return open_box


@dataclass(frozen=True, kw_only=True)
class Lab:
    """A domain with a store, a root file system and boxes; `splits` of its families by name."""

    domain: Domain
    splits: Mapping[str, str]
    max_turns: int
    store: TaskStore
    cache: Path
    rootfs: Path
    folder: Path
    made: dict[tuple[str, int, int], Task] = field(default_factory=dict)

    def boxes(self, task: Task) -> BoxFactory:
        return local_boxes(self.rootfs, task)

    def task(self, family: str, level: int, seed: int = 3) -> Task:
        """The family's first task of the level."""
        place = (family, level, seed)
        if place not in self.made:
            self.made[place] = self._make(family, level, seed)
        return self.made[place]

    def _make(self, family: str, level: int, seed: int) -> Task:
        heldout = self.splits[family] == "heldout"
        source: dict[str, Json] = {
            "kind": "generated", "domain": self.domain.name, "seed": seed, "train": 1 - heldout,
            "heldout": int(heldout), "families": [family], "level": level,
        }  # fmt: skip
        (task_id,) = self.domain.list_sources(source)
        made = self.domain.build(source, task_id, self.folder)
        return self.domain.import_folder(made, self.store, limits=LIMITS, history="past", cache=self.cache)

    def verdict(self, task: Task, changes: Changes) -> Verdict:
        return self.domain.verify(task, changes, self.store, self.boxes(task))

    def after(self, task: Task, commands: Sequence[str]) -> Changes:
        """What these commands leave."""
        with self.boxes(task)(self.store.snapshot(task), {}) as box:
            for command in commands:
                box.exec(command, timeout_s=30)
            box.freeze()
            return box.changes()

    def replayed(self, task: Task, harness: str, seed: int) -> Changes:
        """What the expert leaves when its words go through the harness."""
        acting = load_harness(harness, max_turns=self.max_turns)
        with self.boxes(task)(self.store.snapshot(task), {}) as box:
            turns = self.domain.demonstrate(task, self.store, harness=harness, seed=seed)
            for number, turn in enumerate(turns, 1):
                parsed = acting.parse(turn.text)
                assert parsed.malformed == (), turn.text
                seen = acting.act(parsed.call, box, task)
                assert seen.done == (number == len(turns)), (turn.text, seen.text)
            box.freeze()
            return box.changes()


def open_lab(domain: Domain, splits: Mapping[str, str], root: Path, *, max_turns: int) -> Lab:
    """The lab below `root`; its root file system is made now."""
    cache = root / "cache"
    return Lab(
        domain=domain,
        splits=splits,
        max_turns=max_turns,
        store=TaskStore(root / "store"),
        cache=cache,
        rootfs=ensure_rootfs(cache),
        folder=root / "made",
    )
