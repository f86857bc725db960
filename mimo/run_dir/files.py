"""Files of a state folder: writes that survive a kill or a power cut (temp, fsync, rename, fsync of the
folder), JSON lines, and digests by which damage is found."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from mimo.errors import MachineLacks
from mimo.types import CheckpointFile, Json

SMALL_FILE_BYTES = 64 * 1024 * 1024
"""What a check that has to be quick reads whole; of larger files it looks at the size."""
WHOLE_FOLDER_BYTES = 2**40
"""A folder up to this size is digested to the last byte (1.5 GB/s a core and file); of the large files of a
larger one the digest covers size, head and 64 spread chunks."""
MOST_READERS = 8
_CHUNK = 2**16
_SAMPLES = 64
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


def sampled_sha256(path: Path, size: int) -> str:
    """Digest of size, the first chunks (a safetensors header fits) and evenly spaced ones to the end."""
    digest = hashlib.sha256(str(size).encode())
    with open(path, "rb") as file:
        digest.update(file.read(16 * _CHUNK))
        for index in range(1, _SAMPLES + 1):
            file.seek((size - _CHUNK) * index // _SAMPLES)
            digest.update(file.read(_CHUNK))
    return digest.hexdigest()


def describe(folder: Path, known: Mapping[str, CheckpointFile] | None = None) -> tuple[CheckpointFile, ...]:
    """Every file below `folder`, by its path from there: size and sha256, several files at a time.

    Args:
        known: files that were described just now, by their path from `folder`; not read again.
    """
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    whole = sum(path.stat().st_size for path in paths) <= WHOLE_FOLDER_BYTES
    earlier = known or {}

    def one(path: Path) -> CheckpointFile:
        name, size = str(path.relative_to(folder)), path.stat().st_size
        if name in earlier and earlier[name].size == size:
            return earlier[name]
        every_byte = whole or size <= SMALL_FILE_BYTES
        digest = file_sha256(path) if every_byte else sampled_sha256(path, size)
        return CheckpointFile(name=name, size=size, sha256=digest, whole=every_byte)

    with ThreadPoolExecutor(_readers()) as pool:
        return tuple(pool.map(one, paths))


def check_files(
    folder: Path, files: Sequence[CheckpointFile], *, read: Callable[[CheckpointFile], bool]
) -> None:
    """Return if the files are there as they were described; several at a time.

    Args:
        read: of which files the content counts; of the others the size does.

    Raises:
        OSError: one is missing or cannot be read.
        ValueError: another size or content.
    """

    def one(file: CheckpointFile) -> None:
        path = folder / file.name
        size = path.stat().st_size
        if size != file.size:
            raise ValueError(f"{file.name} has {size} bytes, expected {file.size}")
        if file.sha256 is None or not read(file):
            return
        found = file_sha256(path) if file.whole else sampled_sha256(path, size)
        if found != file.sha256:
            raise ValueError(f"{file.name} has another content than was written")

    with ThreadPoolExecutor(_readers()) as pool:
        for _ in pool.map(one, files):
            pass


def is_small(file: CheckpointFile) -> bool:
    """Whether a check that has to be quick reads it."""
    return file.size <= SMALL_FILE_BYTES


def _readers() -> int:
    return max(1, min(MOST_READERS, len(os.sched_getaffinity(0))))
