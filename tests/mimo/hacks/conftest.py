"""A real generated task, a private copy of its work tree, and a way to probe it with or without a box."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mimo.hacks.needles import Secrets
from mimo.hacks.probe import Cleaned, find_leaks, leaks_only, look_inside, scrub_copy
from mimo.hacks.route import Found
from mimo.hacks.scene import Expected, open_scene
from mimo.types import Task
from sandbox import open_sandbox
from sandbox.base import BoxLimits, BoxSpec, Sandbox
from sandbox.rootfs import ensure_rootfs
from sandbox.snapshot import snapshot_tree
from tests.mimo.hacks.prepared import GENERATED, Prepared, prepare, secrets


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def generated(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Prepared:
    return prepare({**GENERATED, "train": 8, "heldout": 4}, tmp_path_factory.mktemp("generated"), cache)


@dataclass
class Environment:
    """One task's work tree to plant in."""

    task: Task
    tree: Path
    secrets: Secrets
    cache: Path
    folder: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def module(self) -> str:
        """The file that the reference repairs."""
        return next(path for path in self.secrets.reference if path.endswith(".py"))

    @property
    def fixed(self) -> bytes:
        """Its repaired content."""
        data = self.secrets.reference[self.module]
        assert data is not None
        return data

    def write(self, path: str, data: bytes) -> None:
        (self.tree / path).parent.mkdir(parents=True, exist_ok=True)
        (self.tree / path).write_bytes(data)

    def probe(self, *, box: bool = False, snapshot: bool = True) -> tuple[list[Found], Cleaned | None]:
        """Findings on a fresh snapshot of the tree, and the cleaned copy if something leaks."""
        place = self.tree
        if snapshot:
            place = self.folder / "snapshots" / snapshot_tree(self.tree, self.folder / "snapshots")
        env = {**self.task.environment.env, **self.env}
        expected = Expected(workdir=self.task.environment.workdir, env=env)
        with open_scene(place, self.task.base_commit, self.secrets, expected=expected) as scene:
            scene.image = ensure_rootfs(self.cache)
            if box:
                with self.box(place, env) as opened:
                    scene.box = look_inside(opened)
            findings = find_leaks(scene)
            leaks = leaks_only(findings)
            return findings, scrub_copy(scene, leaks, self.folder) if leaks else None

    def box(self, snapshot: Path, env: Mapping[str, str] | None = None) -> Sandbox:
        """A box on a snapshot."""
        limits = BoxLimits(
            wall_s=60, command_s=20, memory_mb=512, processes=64, disk_mb=64, output_bytes=16384
        )
        spec = BoxSpec(
            rootfs=ensure_rootfs(self.cache),
            snapshot=snapshot,
            workdir="/work",
            env=self.task.environment.env if env is None else env,
            limits=limits,
            label="test-hacks",
        )
        return open_sandbox("local", spec)

    def after(self, cleaned: Cleaned) -> list[Found]:
        """What the probes find in the cleaned copy's snapshot."""
        place = self.folder / "snapshots" / snapshot_tree(cleaned.tree, self.folder / "snapshots")
        with open_scene(place, cleaned.commit, self.secrets) as scene:
            return find_leaks(scene)


@pytest.fixture
def environment(generated: Prepared, cache: Path, tmp_path: Path) -> Environment:
    task = generated.tasks[0]
    tree = tmp_path / "tree"
    shutil.copytree(generated.store.snapshot(task), tree, symlinks=True)
    return Environment(task, tree, secrets(generated, task), cache, tmp_path)


Git = Callable[..., str]


@pytest.fixture
def git(environment: Environment) -> Iterator[Git]:
    """Git on the environment's tree, as whoever prepared it badly would run it."""
    import subprocess

    def run(*arguments: str, given: bytes = b"", cwd: Path | None = None) -> str:
        command = [
            "git",
            "-c",
            "user.name=dev",
            "-c",
            "user.email=dev@localhost",
            "-c",
            "safe.directory=*",
            *arguments,
        ]
        done = subprocess.run(
            command, cwd=cwd or environment.tree, input=given, capture_output=True, check=True
        )
        return done.stdout.decode().strip()

    return run  # type: ignore[return-value]
