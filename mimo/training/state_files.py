"""Whether a trainer's state on disk is whole; needs no torch."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from mimo.errors import EngineFailed
from mimo.run_dir.files import check_file, load_json
from mimo.types import CheckpointFile, Json

STATE = "trainer.json"
"""Written last; lists every file of the folder."""


def check_state(folder: Path) -> dict[str, Json]:
    """The content of `trainer.json`, after every file it lists was found whole.

    Raises:
        EngineFailed: the folder is incomplete or damaged.
    """
    try:
        facts = load_json(folder / STATE)
        for row in cast("list[dict[str, Json]]", facts["files"]):
            check_file(folder, CheckpointFile(**row))  # type: ignore[arg-type]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EngineFailed(f"{folder}: no whole trainer state: {error}") from error
    return facts
