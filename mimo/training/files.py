"""Reading back what `mimo.run_dir.files` wrote, with errors where it is not there; digests of files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import cast

from mimo.types import CheckpointFile, Json

SMALL_FILE_BYTES = 64 * 1024 * 1024
"""Files up to this size get a sha256; larger ones are recorded by their size."""


def load_json(path: Path) -> dict[str, Json]:
    """The JSON object at `path`; ValueError when it is not one, OSError when it cannot be read."""
    data = json.loads(path.read_bytes())
    if not isinstance(data, dict):
        raise ValueError(f"{path}: got {type(data).__name__}, expected a JSON object")
    return cast("dict[str, Json]", data)


def file_sha256(path: Path) -> str:
    """The sha256 of the file's bytes, as hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def describe(folder: Path) -> tuple[CheckpointFile, ...]:
    """Every file below `folder`, by its path from there: size, and sha256 of the small ones."""
    return tuple(
        CheckpointFile(
            name=str(path.relative_to(folder)),
            size=path.stat().st_size,
            sha256=file_sha256(path) if path.stat().st_size <= SMALL_FILE_BYTES else None,
        )
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    )


def check_file(folder: Path, file: CheckpointFile) -> None:
    """Return if the file is there as it was described.

    Raises:
        OSError: it is missing or cannot be read.
        ValueError: another size or content.
    """
    path = folder / file.name
    size = path.stat().st_size
    if size != file.size:
        raise ValueError(f"{file.name} has {size} bytes, expected {file.size}")
    if file.sha256 is not None and file_sha256(path) != file.sha256:
        raise ValueError(f"{file.name} has another content than was written")
