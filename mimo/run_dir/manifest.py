"""The manifest of a published output: its files, the identity it was made for, what the stage said."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from mimo.records import from_json, to_json
from mimo.run_dir.files import canonical, file_sha256, read_json, sampled_sha256, write_json
from mimo.types import Json, record

NAME = "manifest.json"
ENGINE_FOLDER = "_run"
"""Inside an output: metrics, traces and log of the stage; not part of the output's digest."""
WHOLE_BYTES = 64 * 2**20
_CHECK_BYTES = 2**20
_CHECK_BUDGET = 64 * 2**20


@record
class FileFact:
    """A file of an output. Above 64 MiB `sha256` covers size, head and 64 spread chunks (`whole` False)."""

    name: str
    size: int
    sha256: str
    whole: bool


@record
class Manifest:
    """`manifest.json`, written last.

    `identity` is everything the key was made from; `codes` every code digest that worked on it (several after
    an interrupted stage was adopted); `progress` the last commit {step, state}; `continued_from` the key
    whose output a raised horizon went on from; `refusal` {message, hint} is the no of a gate, if it said no.
    """

    stage: str
    key: str
    work_key: str
    identity: dict[str, Json]
    digest: str
    files: tuple[FileFact, ...]
    run: str
    created: float
    wall_s: float
    planned: int
    progress: dict[str, Json]
    codes: tuple[str, ...]
    attempts: int
    continued_from: str | None
    headline: dict[str, float]
    notes: tuple[str, ...]
    counts: dict[str, Json]
    refusal: dict[str, str] | None = None


def list_files(folder: Path) -> list[FileFact]:
    """The facts of every file below `folder`, sorted by name; manifest and engine folder left out.

    Raises:
        ValueError: a link or something that is no plain file.
    """
    return [_fact(folder, path) for path in sorted(_walk(folder))]


def output_digest(files: Iterable[FileFact], key: str) -> str:
    """sha256 over names, sizes and contents; the key is added when a file was only sampled.

    So equal bytes made under another key cut off what follows, unless not every byte was read.
    """
    facts = [[fact.name, fact.size, fact.sha256] for fact in files]
    whole = all(fact.whole for fact in files)
    return hashlib.sha256(canonical({"files": facts, "key": None if whole else key})).hexdigest()


def write(folder: Path, manifest: Manifest) -> None:
    """Write the manifest into `folder`."""
    write_json(folder / NAME, to_json(manifest))


def read(folder: Path) -> Manifest | None:
    """The manifest in `folder`, or None when there is none that can be read."""
    data = read_json(folder / NAME)
    if data is None:
        return None
    try:
        return from_json(Manifest, data)
    except ValueError:
        return None


def problems(folder: Path, manifest: Manifest) -> list[str]:
    """What is wrong with a published output: files missing, of another size, or (small ones) changed."""
    found = []
    budget = _CHECK_BUDGET
    for fact in manifest.files:
        path = folder / fact.name
        try:
            size = path.lstat().st_size
        except OSError:
            found.append(f"{fact.name} is missing")
            continue
        if size != fact.size:
            found.append(f"{fact.name} has {size} bytes, expected {fact.size}")
        elif size <= min(_CHECK_BYTES, budget):
            budget -= size
            if file_sha256(path) != fact.sha256:
                found.append(f"{fact.name} has changed")
    return found


def _walk(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        top = Path(parent) == folder
        if top and ENGINE_FOLDER in folders:
            folders.remove(ENGINE_FOLDER)
        for name in [*names, *(name for name in folders if (Path(parent) / name).is_symlink())]:
            if not (top and name == NAME):
                yield Path(parent) / name


def _fact(folder: Path, path: Path) -> FileFact:
    name = str(path.relative_to(folder))
    if path.is_symlink() or not path.is_file():
        raise ValueError(f"{name} is not a plain file")
    size = path.stat().st_size
    whole = size <= WHOLE_BYTES
    return FileFact(
        name=name, size=size, sha256=file_sha256(path) if whole else sampled_sha256(path, size), whole=whole
    )
