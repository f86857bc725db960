"""Whether a trainer's state on disk is whole; needs no torch."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from mimo.errors import EngineFailed
from mimo.run_dir.files import check_files, is_small, load_json
from mimo.types import CheckpointFile, Json

STATE = "trainer.json"
"""Written last; lists every file of the folder."""


def check_state(folder: Path, *, quickly: bool) -> dict[str, Json]:
    """The content of `trainer.json`, after every file it lists was found whole.

    Args:
        quickly: of files above `SMALL_FILE_BYTES` look at the size only.

    Raises:
        EngineFailed: the folder is incomplete or damaged.
    """
    try:
        facts = load_json(folder / STATE)
        check_files(folder, listed_files(facts), read=is_small if quickly else lambda _: True)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EngineFailed(f"{folder}: no whole trainer state: {error}") from error
    return facts


def listed_files(facts: dict[str, Json]) -> list[CheckpointFile]:
    """The files that a `trainer.json` lists, by their path from its folder."""
    rows = cast("list[dict[str, Json]]", facts["files"])
    return [CheckpointFile(**row) for row in rows]  # type: ignore[arg-type]
