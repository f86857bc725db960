"""From a task folder (Harbor layout) to a Task: the program built, git rebuilt, snapshot, private files."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import cast

from mimo.domains.base import TaskStore
from mimo.domains.coding.importer import (
    BASE_ENV,
    TaskFolder,
    copy_tree,
    folder_task_id,
    image_digest,
    read_folder,
    store_private,
    tell_left_out,
    verifier_timeout,
)
from mimo.domains.cyber.generated.plant import Language
from mimo.domains.cyber.runtime import COMMAND, INPUT, PROGRAM
from mimo.domains.cyber.toolchain import WORKDIR, build_program
from mimo.errors import RecipeError
from mimo.types import Environment, Json, Limits, Source, Split, Task, Verifier
from sandbox.git_rebuild import init_git
from sandbox.snapshot import snapshot_tree


def import_program(path: Path, store: TaskStore, *, limits: Limits, cache: Path) -> Task:
    """The task of the folder, with its snapshot (sources, built program, starting input) in the store.

    Raises:
        RecipeError: see `read_folder`; facts or files are missing, or the sources do not compile.
        MachineLacks: no compiler with AddressSanitizer here.
    """
    folder = read_folder(path)
    facts = _facts(folder)
    store.root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=store.root, prefix=".import-") as scratch:
        tree = Path(scratch) / "tree"
        tell_left_out(folder, copy_tree(path / "environment" / "repo", tree))
        program = build_program(tree, folder.texts("sources"), _language(folder), cache)
        target = tree / PROGRAM
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(program)
        target.chmod(0o755)
        commit = init_git(tree)
        snapshot = snapshot_tree(tree, store.root / "snapshots")
        private = store_private(path, store)
    return Task(
        task_id=folder.text("task_id", folder_task_id(path)),
        domain="cyber",
        family=folder.text("family", path.name),
        split=cast(Split, folder.text("split", "train")),
        source=Source(
            kind=folder.text("kind", "folder"),
            name=folder.text("name", path.name),
            version=folder.text("version", "0"),
            sha256=folder.text("sha256", private),
            license=folder.text("license", "unknown"),
        ),
        instruction=folder.instruction,
        base_commit=commit,
        environment=Environment(
            image=image_digest(cache), snapshot=snapshot, workdir=WORKDIR, env=dict(BASE_ENV), limits=limits
        ),
        verifier=Verifier(
            kind="sanitizer",
            fail_to_pass=(),
            pass_to_pass=(),
            protected=("**",),
            command=COMMAND,
            timeout_s=verifier_timeout(folder),
            expect=facts,
        ),
        private=private,
    )


def _facts(folder: TaskFolder) -> dict[str, Json]:
    """What the verifier must know: the report that counts, and the project's files."""
    repo = folder.path / "environment" / "repo"
    wanted = {key: folder.text(key, "") for key in ("type", "function", "file")}
    missing = [key for key, value in wanted.items() if not value]
    sources = folder.texts("sources")
    missing += [] if sources else ["sources"]
    if missing:
        raise RecipeError(f"{folder.path / 'task.toml'}: metadata.mimo lacks {', '.join(missing)}")
    absent = [name for name in (*sources, INPUT, "run") if not (repo / name).is_file()]
    if absent:
        raise RecipeError(f"{repo}: no {', '.join(absent)}")
    if not (folder.path / "solution" / "files" / INPUT).is_file():
        raise RecipeError(
            f"{folder.path}: no solution/files/{INPUT}", hint="put the input that shows the bug there"
        )
    shown = folder.facts.get("shown", False)
    return {**wanted, "runner": "sanitizer", "input": INPUT, "sources": list(sources), "shown": shown}


def _language(folder: TaskFolder) -> Language:
    language = folder.text("language", "c")
    if language not in ("c", "c++"):
        raise RecipeError(f"{folder.path / 'task.toml'}: metadata.mimo.language is {language!r}; c or c++")
    return cast(Language, language)
