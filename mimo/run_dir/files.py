"""Files of a state folder: writes that survive a kill or a power cut (temp, fsync, rename, fsync of the
folder), JSON lines, and digests by which damage is found."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from mimo.errors import MachineLacks
from mimo.types import CheckpointFile, Json

SMALL_FILE_BYTES = 64 * 1024 * 1024
"""Files up to this size get a sha256 in `describe`; larger ones are recorded by their size."""
_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def disk_full_is_clear(path: Path) -> Iterator[None]:
    """Turn «no space left» below `path` into MachineLacks; other errors pass."""
    try:
        yield
    except Exception as error:
        if is_disk_full(error):
            raise disk_full(path) from error
        raise


def is_disk_full(error: Exception) -> bool:
    """Whether it says «no space left»; safetensors' error is no OSError and has the number in its text."""
    if isinstance(error, OSError):
        return error.errno in _FULL
    return any(f"(os error {code})" in str(error) for code in _FULL)


def disk_full(path: Path) -> MachineLacks:
    """The error for a full disk: nothing committed is lost, and what to do."""
    return MachineLacks(
        f"no space left on the disk that holds {path}; everything committed so far is kept",
        hint="free space there (`mimo gc` shows what can go), then run the same command again",
    )


def fsync_folder(folder: Path) -> None:
    """Make the names in `folder` durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_atomic(path: Path, data: bytes) -> None:
    """Replace `path` by `data` in one step; a reader sees the old or the new content, never a part."""
    temp = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with disk_full_is_clear(path):
        try:
            with open(temp, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temp.replace(path)
        except BaseException:
            temp.unlink(missing_ok=True)
            raise
        fsync_folder(path.parent)


def canonical(data: object) -> bytes:
    """`data` as JSON bytes with sorted keys and no spaces: what is hashed."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def write_json(path: Path, data: object) -> None:
    """Replace `path` by `data` as readable JSON."""
    write_atomic(path, json.dumps(data, indent=1, ensure_ascii=False).encode() + b"\n")


def read_json(path: Path) -> dict[str, Json] | None:
    """The JSON object in `path`; None when the file is missing or holds none (a torn or foreign file)."""
    try:
        return load_json(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None


def load_json(path: Path) -> dict[str, Json]:
    """The JSON object at `path`; ValueError when it is not one, OSError when it cannot be read."""
    data = json.loads(path.read_bytes())
    if not isinstance(data, dict):
        raise ValueError(f"{path}: got {type(data).__name__}, expected a JSON object")
    return cast("dict[str, Json]", data)


def json_line(row: Mapping[str, Any]) -> bytes:
    """The row as one line of JSON, newline included."""
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def append_lines(path: Path, rows: Iterable[Mapping[str, Any]], *, durable: bool = True) -> None:
    """Append one JSON line per row; with `durable` they are on the disk when this returns."""
    data = b"".join(json_line(row) for row in rows)
    if not data:
        return
    with disk_full_is_clear(path), open(path, "ab") as file:
        file.write(data)
        file.flush()
        if durable:
            os.fsync(file.fileno())


def read_lines(path: Path) -> list[dict[str, Json]]:
    """The JSON objects in `path`, a line each; a torn last line is left out, a missing file is empty."""
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    rows = []
    for line in lines[:-1]:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows


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
