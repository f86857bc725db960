"""From a task folder (Harbor layout) to a Task: work tree with git rebuilt, snapshot, private files."""

from __future__ import annotations

import fnmatch
import hashlib
import logging
import os
import shutil
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import cast

from mimo.domains.base import OpenSpec, TaskStore, open_local
from mimo.domains.coding.protected import PROTECTED
from mimo.domains.coding.reference import reference_files
from mimo.domains.coding.telling_tests import with_telling_tests
from mimo.errors import RecipeError
from mimo.types import Domain, Environment, Json, Limits, Source, Split, Task, Verifier
from sandbox.git_rebuild import GitRebuildError, init_git, rebuild_git, unpack_history, unreached
from sandbox.rootfs import build_test_tools, ensure_rootfs, rootfs_digest
from sandbox.snapshot import snapshot_tree

WORKDIR = "/work"
VISIBLE_COMMAND = "PYTHONPATH=/opt/test-tools python3 -m pytest -q --tb=short -p no:cacheprovider"
BASE_ENV = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONNOUSERSITE": "1",
}
MAX_TREE_BYTES = 64_000_000
_MOST_TOLD = 3
_LOG = logging.getLogger(__name__)
HISTORY = "environment/history.pack"
"""Optional: a git pack of what the base commit reaches, for `prepare_env.history: past`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskFolder:
    """A task folder as read: the `[metadata.mimo]` facts, the whole task.toml, the instruction."""

    path: Path
    facts: dict[str, Json]
    config: dict[str, Json]
    instruction: str

    def text(self, key: str, default: str) -> str:
        """A fact that is a string."""
        value = self.facts.get(key, default)
        if not isinstance(value, str):
            raise RecipeError(f"{self.path / 'task.toml'}: metadata.mimo.{key} is no string")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A fact that is a list of strings (empty when missing)."""
        value = self.facts.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise RecipeError(f"{self.path / 'task.toml'}: metadata.mimo.{key} is no list of strings")
        return tuple(cast("list[str]", value))


def read_folder(path: Path) -> TaskFolder:
    """The task folder, checked for what every task needs.

    Raises:
        RecipeError: task.toml, instruction, repository or tests missing, or a file that cannot be read.
    """
    config = _toml(path / "task.toml")
    metadata = config.get("metadata")
    mimo = metadata.get("mimo", {}) if isinstance(metadata, dict) else {}
    instruction = path / "instruction.md"
    if not instruction.is_file() or not instruction.read_text().strip():
        raise RecipeError(f"{path}: no instruction.md", hint="say there what is to be repaired")
    if not (path / "environment" / "repo").is_dir():
        raise RecipeError(
            f"{path}: no environment/repo", hint="put the work tree as it is before the repair there"
        )
    tests = path / "tests"
    if not tests.is_dir() or not any(found.is_file() for found in tests.rglob("*")):
        raise RecipeError(f"{path}: no tests", hint="put hidden tests (test_*.py or test.sh) under tests/")
    return TaskFolder(
        path=path,
        facts=cast("dict[str, Json]", mimo if isinstance(mimo, dict) else {}),
        config=config,
        instruction=instruction.read_text(),
    )


def import_task(
    path: Path,
    store: TaskStore,
    *,
    limits: Limits,
    history: str,
    cache: Path,
    open_spec: OpenSpec = open_local,
) -> Task:
    """The task of the folder, with its snapshot and private files in the store (idempotent).

    Raises:
        RecipeError: see `read_folder`; also a work tree with links that leave it, or one that is too large.
    """
    folder = read_folder(path)
    store.root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=store.root, prefix=".import-") as scratch:
        tree = Path(scratch) / "tree"
        tell_left_out(folder, copy_tree(path / "environment" / "repo", tree))
        commit = _with_git(folder, tree, Path(scratch), history)
        snapshot = snapshot_tree(tree, store.root / "snapshots")
        private = store_private(path, store)
    if folder.text("runner", "pytest") not in ("functions", "checks", "render"):
        build_test_tools(store.root / "tools")
    task = _task(folder, snapshot, commit, private, limits, image_digest(cache))
    named = task.verifier.fail_to_pass or task.verifier.pass_to_pass
    has_reference = bool(reference_files(store.private(task)))
    if task.verifier.expect["runner"] == "pytest" and not named and has_reference:
        return with_telling_tests(task, store, cache, open_spec)
    return task


def _with_git(folder: TaskFolder, tree: Path, scratch: Path, history: str) -> str:
    """The commit that `tree` stands on: that of `environment/history.pack`, else one made of its files."""
    pack = folder.path / HISTORY
    if not pack.is_file():
        return init_git(tree)
    base = folder.text("base_commit", "")
    try:
        unpack_history(pack, scratch / "git")
        beyond = unreached(scratch / "git", base)
        if beyond:
            name = folder.text("family", folder.path.name)
            _LOG.warning("left out of a task's git history (%s: %d objects beyond its base)", name, beyond)
        return rebuild_git(scratch / "git", base, tree, "past" if history == "past" else "none")
    except GitRebuildError as error:
        raise RecipeError(
            f"{pack} does not hold metadata.mimo.base_commit {base!r}: {error}",
            hint="import the task again, or remove the pack",
        ) from error


def _task(folder: TaskFolder, snapshot: str, commit: str, private: str, limits: Limits, image: str) -> Task:
    runner = folder.text("runner", "script" if (folder.path / "tests/test.sh").is_file() else "pytest")
    return Task(
        task_id=folder.text("task_id", folder_task_id(folder.path)),
        domain=cast(Domain, folder.text("domain", "coding")),
        family=folder.text("family", folder.path.name),
        split=cast(Split, folder.text("split", "train")),
        source=Source(
            kind=folder.text("kind", "folder"),
            name=folder.text("name", folder.path.name),
            version=folder.text("version", "0"),
            sha256=folder.text("sha256", private),
            license=folder.text("license", "unknown"),
        ),
        instruction=folder.instruction,
        base_commit=commit,
        environment=Environment(
            image=image, snapshot=snapshot, workdir=_workdir(folder), env=dict(BASE_ENV), limits=limits
        ),
        verifier=Verifier(
            kind="tests",
            fail_to_pass=folder.texts("fail_to_pass"),
            pass_to_pass=folder.texts("pass_to_pass"),
            protected=(*PROTECTED, *folder.texts("protected"), *folder.texts("visible")),
            command=folder.text("command", VISIBLE_COMMAND),
            timeout_s=verifier_timeout(folder),
            expect={
                "runner": runner,
                "visible": list(folder.texts("visible")),
                "shown": folder.facts.get("shown", False),
            },
        ),
        private=private,
    )


def _workdir(folder: TaskFolder) -> str:
    """Where the work tree is in the box; RecipeError if that is no absolute path."""
    place = folder.text("workdir", WORKDIR)
    if not PurePosixPath(place).is_absolute() or place == "/" or ".." in PurePosixPath(place).parts:
        raise RecipeError(
            f"{folder.path / 'task.toml'}: metadata.mimo.workdir is {place!r}",
            hint="an absolute folder, not /",
        )
    return place


def folder_task_id(path: Path) -> str:
    """The opaque id of a user's folder, from its name."""
    return "f" + hashlib.sha256(path.name.encode()).hexdigest()[:12]


@lru_cache(maxsize=8)
def image_digest(cache: Path) -> str:
    """Digest of the root file system; checking it reads all its files, so once a process."""
    return rootfs_digest(ensure_rootfs(cache))


def verifier_timeout(folder: TaskFolder) -> float:
    """Seconds from `[verifier] timeout_sec`; RecipeError if it is no positive number."""
    verifier = folder.config.get("verifier")
    value = verifier.get("timeout_sec", 60.0) if isinstance(verifier, dict) else 60.0
    if not isinstance(value, int | float) or value <= 0:
        raise RecipeError(f"{folder.path / 'task.toml'}: verifier.timeout_sec is {value!r}")
    return float(value)


def _toml(path: Path) -> dict[str, Json]:
    if not path.is_file():
        raise RecipeError(f"{path.parent}: no task.toml", hint="a task is a folder in Harbor's layout")
    try:
        return cast("dict[str, Json]", tomllib.loads(path.read_text()))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path}: {error}") from error


def store_private(path: Path, store: TaskStore) -> str:
    """The key of the private entry: tests, solution, task.toml; its name is a digest of the content."""
    names = [name for name in ("tests", "solution", "task.toml") if (path / name).exists()]
    digest = hashlib.sha256()
    for file in sorted(found for name in names for found in _files_below(path / name)):
        digest.update(f"{file.relative_to(path).as_posix()}\0".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    key = digest.hexdigest()
    final = store.root / "private" / key
    if not final.is_dir():
        final.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(dir=final.parent, prefix=".work-"))
        for name in names:
            source = path / name
            if source.is_dir():
                copy_tree(source, work / name)
            else:
                shutil.copyfile(source, work / name)
        try:
            work.rename(final)
        except OSError:
            shutil.rmtree(work)
            if not final.is_dir():
                raise
    return key


def _files_below(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    yield from (found for found in path.rglob("*") if found.is_file() and not found.is_symlink())


_LEFT_OUT = ("__pycache__", "*.pyc", ".git", ".pytest_cache", "*.egg-info")


def copy_tree(source: Path, target: Path) -> tuple[str, ...]:
    """A copy of regular files and folders; links and devices are refused. What stays behind: `.git`, caches,
    bytecode.
    """
    target.mkdir(parents=True)
    size = 0
    behind: list[str] = []
    for root, folders, files in os.walk(source):
        below = Path(root).relative_to(source)
        behind += sorted((below / name).as_posix() for name in [*folders, *files] if _left_out(name))
        folders[:] = sorted(name for name in folders if not _left_out(name))
        here = target / below
        for name in [*folders, *files]:
            original = Path(root, name)
            if original.is_symlink() or not (original.is_file() or original.is_dir()):
                raise RecipeError(f"{original}: a task folder holds only regular files and folders")
        for name in folders:
            (here / name).mkdir()
        for name in sorted(name for name in files if not _left_out(name)):
            size += Path(root, name).stat().st_size
            if size > MAX_TREE_BYTES:
                raise RecipeError(f"{source}: larger than {MAX_TREE_BYTES // 1_000_000} MB")
            shutil.copyfile(Path(root, name), here / name)
            shutil.copymode(Path(root, name), here / name)
    return tuple(behind)


def tell_left_out(folder: TaskFolder, behind: tuple[str, ...]) -> None:
    """Warn of what of `environment/repo` is not in the task's work tree; prepare-env counts warnings."""
    if behind:
        more = f" and {len(behind) - _MOST_TOLD} more" if len(behind) > _MOST_TOLD else ""
        told = ", ".join(behind[:_MOST_TOLD]) + more
        _LOG.warning("left out of a task's work tree (%s: %s)", folder.text("family", folder.path.name), told)


def _left_out(name: str) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in _LEFT_OUT)
