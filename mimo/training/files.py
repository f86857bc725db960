"""Small files written whole or not at all, and digests of what lies on disk."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from mimo.types import Json

SMALL_FILE_BYTES = 64 * 1024 * 1024
"""Files up to this size get a sha256; larger ones are recorded by their size."""


def write_atomic(path: Path, data: bytes) -> None:
    """`data` at `path`: after a kill at any moment there is the old file or the new one, never a part."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    with open(partial, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)


def write_json(path: Path, data: Mapping[str, Json]) -> None:
    """`data` as indented JSON at `path`, atomically."""
    write_atomic(path, json.dumps(data, indent=1, ensure_ascii=False).encode() + b"\n")


def read_json(path: Path) -> dict[str, Json]:
    """The JSON object at `path`; ValueError when it is not one, OSError when it cannot be read."""
    data = json.loads(path.read_bytes())
    if not isinstance(data, dict):
        raise ValueError(f"{path}: got {type(data).__name__}, expected a JSON object")
    return cast("dict[str, Json]", data)


def file_sha256(path: Path) -> str:
    """The sha256 of the file's bytes, as hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
