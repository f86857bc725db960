"""What may be hidden inside a file: archives, compressed streams, base64 and hex, opened with bounds on
everything.
"""

from __future__ import annotations

import base64
import binascii
import bz2
import codecs
import io
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

MAX_DEPTH = 3
MAX_DECODED = 32_000_000
"""Bytes decoded of one file, all layers together."""
_MAX_MEMBERS = 2_000
_MAX_STREAMS = 64
_MAX_ROT13 = 65_536
_ZLIB = re.compile(rb"\x78[\x01\x5e\x9c\xda]")
_BASE64 = re.compile(rb"(?:[A-Za-z0-9+/_-]{40,}[\r\n]{0,2}(?:\\n)?)+[A-Za-z0-9+/_-]*={0,2}")
_HEX = re.compile(rb"(?:[0-9a-fA-F]{2}){24,}")
_NOT_BASE64 = re.compile(rb"\\n|[\r\n]")


@dataclass(slots=True)
class _Budget:
    left: int = MAX_DECODED

    def take(self, data: bytes) -> bytes:
        piece = data[: max(self.left, 0)]
        self.left -= len(piece)
        return piece


def layers(data: bytes) -> Iterator[tuple[str, bytes]]:
    """`("", data)`, then `("!name!name", bytes)` for everything decoded from it, at most three deep."""
    yield "", data
    yield from _inner(data, "", 1, _Budget())


def _inner(data: bytes, label: str, depth: int, budget: _Budget) -> Iterator[tuple[str, bytes]]:
    if depth > MAX_DEPTH:
        return
    for name, piece in _decoded(data, budget):
        if len(piece) < 8:
            continue
        where = f"{label}!{name}"
        yield where, piece
        yield from _inner(piece, where, depth + 1, budget)
    if b"\0" in data or depth > 1:
        return
    if b"\n+" in data or data.startswith(b"+"):
        yield "!diff", b"\n".join(line[1:] for line in data.splitlines() if line[:1] in (b"+", b" "))
    if b"\\n" in data:
        yield "!escapes", data.replace(b"\\n", b"\n").replace(b"\\t", b"\t").replace(b'\\"', b'"')
    if len(data) <= _MAX_ROT13:
        yield "!rot13", codecs.encode(data.decode("latin-1"), "rot13").encode("latin-1")


def _decoded(data: bytes, budget: _Budget) -> Iterator[tuple[str, bytes]]:
    archive = _archive(data, budget)
    if archive is not None:
        yield from archive
        return
    if data.startswith(b"\x1f\x8b"):
        yield from _stream("gzip", zlib.decompressobj(31), data, budget)
    elif data.startswith(b"BZh"):
        yield from _stream("bzip2", bz2.BZ2Decompressor(), data, budget)
    elif data.startswith(b"\xfd7zXZ\0"):
        yield from _stream("xz", lzma.LZMADecompressor(), data, budget)
    else:
        yield from _zlib_streams(data, budget)
        yield from _encoded(data, budget)


def _archive(data: bytes, budget: _Budget) -> Iterator[tuple[str, bytes]] | None:
    if data.startswith(b"PK\x03\x04"):
        return _zip_members(data, budget)
    if data[257:262] == b"ustar":
        return _tar_members(data, budget)
    return None


def _zip_members(data: bytes, budget: _Budget) -> Iterator[tuple[str, bytes]]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for info in archive.infolist()[:_MAX_MEMBERS]:
                if budget.left <= 0:
                    return
                try:
                    with archive.open(info) as member:
                        yield info.filename, budget.take(member.read(budget.left))
                except (zipfile.BadZipFile, RuntimeError, zlib.error, NotImplementedError, EOFError):
                    continue
    except (zipfile.BadZipFile, ValueError, OSError):
        return


def _tar_members(data: bytes, budget: _Budget) -> Iterator[tuple[str, bytes]]:
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for number, member in enumerate(archive):
                if number >= _MAX_MEMBERS or budget.left <= 0:
                    return
                file = archive.extractfile(member) if member.isreg() else None
                if file is not None:
                    yield member.name, budget.take(file.read(budget.left))
    except (tarfile.TarError, ValueError, OSError):
        return


def _stream(name: str, decoder: object, data: bytes, budget: _Budget) -> Iterator[tuple[str, bytes]]:
    try:
        piece = decoder.decompress(data, max(budget.left, 1))  # type: ignore[attr-defined]
    except (zlib.error, OSError, lzma.LZMAError, EOFError):
        return
    yield name, budget.take(piece)


def _zlib_streams(data: bytes, budget: _Budget) -> Iterator[tuple[str, bytes]]:
    """Streams at any offset: loose git objects, packs, whatever a script wrote."""
    for number, start in enumerate(_ZLIB.finditer(data)):
        if number >= _MAX_STREAMS or budget.left <= 0:
            return
        try:
            piece = zlib.decompressobj().decompress(data[start.start() :], max(budget.left, 1))
        except zlib.error:
            continue
        yield "zlib", budget.take(piece)


def _encoded(data: bytes, budget: _Budget) -> Iterator[tuple[str, bytes]]:
    for found in _BASE64.finditer(data):
        packed = _NOT_BASE64.sub(b"", found.group()).rstrip(b"=").translate(bytes.maketrans(b"-_", b"+/"))
        packed = (
            packed[: len(packed) // 4 * 4] if len(packed) % 4 == 1 else packed + b"=" * (-len(packed) % 4)
        )
        try:
            yield "base64", budget.take(base64.b64decode(packed))
        except (binascii.Error, ValueError):
            continue
    for found in _HEX.finditer(data):
        yield "hex", budget.take(bytes.fromhex(found.group().decode()))
