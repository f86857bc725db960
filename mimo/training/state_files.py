"""Whether a trainer's state on disk is whole; needs no torch."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from mimo.errors import EngineFailed
from mimo.training.files import file_sha256, read_json
from mimo.types import Json

STATE = "trainer.json"
"""Written last; lists every file of the folder."""


def check_state(folder: Path) -> dict[str, Json]:
    """The content of `trainer.json`, after every file it lists was found whole.

    Raises:
        EngineFailed: the folder is incomplete or damaged.
    """
    try:
        facts = read_json(folder / STATE)
        for row in cast("list[dict[str, Json]]", facts["files"]):
            path = folder / str(row["name"])
            if path.stat().st_size != row["size"]:
                raise ValueError(f"{path.name} has {path.stat().st_size} bytes, expected {row['size']}")
            if row["sha256"] is not None and file_sha256(path) != row["sha256"]:
                raise ValueError(f"{path.name} has another content than was written")
    except (OSError, ValueError, KeyError) as error:
        raise EngineFailed(f"{folder}: no whole trainer state: {error}") from error
    return facts
