"""Checkpoints of a stage: `model/` (servable), `trainer/` (exact resume), `checkpoint.json` (last)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

from mimo.backends.base import Trainer
from mimo.backends.policies import tokenizer_sha256
from mimo.records import from_json, to_json
from mimo.run_dir.files import (
    check_files,
    describe,
    disk_full_is_clear,
    fsync_folder,
    is_small,
    load_json,
    read_json,
    write_json,
)
from mimo.training.state_files import STATE, listed_files
from mimo.types import Checkpoint, CheckpointFile

META, MODEL, TRAINER = "checkpoint.json", "model", "trainer"
_PREFIX = "step-"
Contents = Literal["all", "model", "small"]
"""What is read to the last byte: every file, the servable model and small files, or small files only; of the
others the size counts."""
_READ: Mapping[Contents, Callable[[CheckpointFile], bool]] = {
    "all": lambda _: True,
    "model": lambda file: is_small(file) or file.name.startswith(f"{MODEL}/"),
    "small": is_small,
}
Damaged = Callable[[Path, str], None]
"""Told of every damaged checkpoint that is passed over, and what is wrong with it: count it, say it."""


def write_checkpoint(
    root: Path, trainer: Trainer, record: Checkpoint, *, published: Path | None = None
) -> Path:
    """The folder `root/step-NNNNNN`, whole, with `record` completed by its files and the tokenizer's digest.

    Args:
        published: a folder that the trainer exported for this very step; linked, not written again.

    Raises:
        MachineLacks: the disk is full (the checkpoints before it are untouched).
        EngineFailed: the trainer could not export or save.
    """
    final = root / f"{_PREFIX}{record.step:06d}"
    partial = root / f".{final.name}.{os.getpid()}.part"
    _remove_partial(root)  # of a killed writer: on a disk that was full its room is needed
    try:
        with disk_full_is_clear(root):
            _write_parts(partial, trainer, record, published)
            shutil.rmtree(final, ignore_errors=True)
            partial.rename(final)
            fsync_folder(root)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return final


def _write_parts(partial: Path, trainer: Trainer, record: Checkpoint, published: Path | None) -> None:
    partial.mkdir(parents=True)
    if published is None:
        trainer.export(partial / MODEL)
    else:
        shutil.copytree(published, partial / MODEL, copy_function=_link)
    trainer.save(partial / TRAINER)
    files = describe(partial, known=_saved(partial / TRAINER))
    complete = replace(record, files=files, tokenizer_sha256=tokenizer_sha256(partial / MODEL))
    write_json(partial / META, to_json(complete))


def _saved(folder: Path) -> dict[str, CheckpointFile]:
    """What the trainer has just digested itself, by its path in the checkpoint."""
    facts = read_json(folder / STATE)
    return (
        {}
        if facts is None
        else {
            f"{TRAINER}/{file.name}": replace(file, name=f"{TRAINER}/{file.name}")
            for file in listed_files(facts)
        }
    )


def read_checkpoint(folder: Path, *, contents: Contents) -> Checkpoint:
    """The record of a checkpoint, after every file it lists was found whole.

    Raises:
        ValueError: missing, incomplete or damaged; says which file.
    """
    try:
        record = from_json(Checkpoint, load_json(folder / META))
        check_files(folder, record.files, read=_READ[contents])
    except OSError as error:
        raise ValueError(f"{folder}: {error}") from error
    return record


def newest_checkpoint(
    root: Path, *, contents: Contents, on_damaged: Damaged
) -> tuple[Path, Checkpoint] | None:
    """The newest whole checkpoint below `root`; None when there is none.

    Damaged ones in between are passed over, each told to `on_damaged`.
    """
    for folder in reversed(checkpoint_folders(root)):
        try:
            return folder, read_checkpoint(folder, contents=contents)
        except ValueError as error:
            on_damaged(folder, str(error))
    return None


def keep_newest(root: Path, count: int) -> list[Path]:
    """Remove what is older than the `count` newest whole checkpoints; the folders removed.

    Only whole ones count, so that damage never leads to fewer than `count` usable ones being left. What a
    killed writer left half-written is removed too. Of large files it looks at the sizes, as it runs after
    every step.
    """
    removed = []
    whole = 0
    for folder in reversed(checkpoint_folders(root)):
        if whole >= count:
            shutil.rmtree(folder)
            removed.append(folder)
            continue
        try:
            read_checkpoint(folder, contents="small")
            whole += 1
        except ValueError:
            continue  # kept: whoever looks for the newest one is told of it
    _remove_partial(root)
    return removed


def checkpoint_folders(root: Path) -> list[Path]:
    """The checkpoint folders below `root` by step, oldest first, whole or not."""
    if not root.is_dir():
        return []
    return sorted(path for path in root.iterdir() if path.is_dir() and path.name.startswith(_PREFIX))


def _remove_partial(root: Path) -> None:
    """Remove what killed writers left; the stage's lock sees to it that nobody else writes here."""
    for rest in root.glob(f".{_PREFIX}*.part"):
        shutil.rmtree(rest, ignore_errors=True)


def _link(source: str, target: str) -> None:
    """A hard link where the file system allows it: published model files are never written again."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
