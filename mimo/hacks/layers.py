"""What may be hidden inside a file: archives, compressed streams, base64 and hex, opened with bounds on
everything. What could not be opened is told, never passed over.
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
from dataclasses import dataclass, field

MAX_DEPTH = 3
MAX_DECODED = 32_000_000
"""Bytes decoded of one file, all layers together."""
_MAX_MEMBERS = 2_000
_MAX_STREAMS = 64
_MAX_ROT13 = 65_536
_ZIP, _TAR, _STREAMS = b"PK\x03\x04", b"ustar", (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0")
_ZLIB = re.compile(rb"\x78[\x01\x5e\x9c\xda]")
_BASE64 = re.compile(rb"(?:[A-Za-z0-9+/_-]{40,}[\r\n]{0,2}(?:\\n)?)+[A-Za-z0-9+/_-]*={0,2}")
_HEX = re.compile(rb"(?:[0-9a-fA-F]{2}){24,}")
_NOT_BASE64 = re.compile(rb"\\n|[\r\n]")


@dataclass(frozen=True, slots=True)
class Unread:
    """A piece that was not searched: `!name!name` as in `layers`, and why."""

    suffix: str
    why: str


@dataclass(slots=True)
class _Budget:
    left: int = MAX_DECODED
    unread: list[Unread] = field(default_factory=list)

    def missed(self, suffix: str, why: str) -> None:
        """Note a piece that nobody searches."""
        self.unread.append(Unread(suffix, why))

    def take(self, data: bytes) -> bytes:
        piece = data[: max(self.left, 0)]
        self.left -= len(piece)
        return piece


def layers(data: bytes, unread: list[Unread] | None = None) -> Iterator[tuple[str, bytes]]:
    """`("", data)`, then `("!name!name", bytes)` for everything decoded from it, at most three deep.

    `unread` gets what could not be opened (encrypted, damaged, an unknown method) or lies beyond the bounds.
    """
    budget = _Budget()
    yield "", data
    yield from _inner(data, "", 1, budget)
    if unread is not None:
        unread += budget.unread


def _inner(data: bytes, label: str, depth: int, budget: _Budget) -> Iterator[tuple[str, bytes]]:
    if depth > MAX_DEPTH:
        if _is_packed(data):
            budget.missed(label, f"packed more than {MAX_DEPTH} times")
        return
    for name, piece in _decoded(data, label, budget):
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


def _is_packed(data: bytes) -> bool:
    return data.startswith((_ZIP, *_STREAMS)) or data[257:262] == _TAR


def _decoded(data: bytes, label: str, budget: _Budget) -> Iterator[tuple[str, bytes]]:
    if data.startswith(_ZIP):
        yield from _zip_members(data, label, budget)
    elif data[257:262] == _TAR:
        yield from _tar_members(data, label, budget)
    elif data.startswith(b"\x1f\x8b"):
        yield from _stream("gzip", zlib.decompressobj(31), data, label, budget=budget)
    elif data.startswith(b"BZh"):
        yield from _stream("bzip2", bz2.BZ2Decompressor(), data, label, budget=budget)
    elif data.startswith(b"\xfd7zXZ\0"):
        yield from _stream("xz", lzma.LZMADecompressor(), data, label, budget=budget)
    else:
        yield from _zlib_streams(data, budget)
        yield from _encoded(data, budget)


def _zip_members(data: bytes, label: str, budget: _Budget) -> Iterator[tuple[str, bytes]]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            for number, info in enumerate(members):
                if number >= _MAX_MEMBERS or budget.left <= 0:
                    budget.missed(label, f"{len(members) - number} members beyond the bounds")
                    return
                try:
                    with archive.open(info) as member:
                        yield info.filename, budget.take(member.read(budget.left))
                except (
                    zipfile.BadZipFile,
                    RuntimeError,
                    zlib.error,
                    NotImplementedError,
                    EOFError,
                    OSError,
                ) as error:
                    budget.missed(f"{label}!{info.filename}", _why(error))
    except (zipfile.BadZipFile, ValueError, OSError) as error:
        budget.missed(label, _why(error))


def _tar_members(data: bytes, label: str, budget: _Budget) -> Iterator[tuple[str, bytes]]:
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for number, member in enumerate(archive):
                if number >= _MAX_MEMBERS or budget.left <= 0:
                    budget.missed(label, "members beyond the bounds")
                    return
                file = archive.extractfile(member) if member.isreg() else None
                if file is not None:
                    yield member.name, budget.take(file.read(budget.left))
    except (tarfile.TarError, ValueError, OSError) as error:
        budget.missed(label, _why(error))


def _stream(
    name: str, decoder: object, data: bytes, label: str, *, budget: _Budget
) -> Iterator[tuple[str, bytes]]:
    try:
        piece = decoder.decompress(data, max(budget.left, 1))  # type: ignore[attr-defined]
    except (zlib.error, OSError, lzma.LZMAError, EOFError) as error:
        budget.missed(f"{label}!{name}", _why(error))
        return
    if not getattr(decoder, "eof", True):
        budget.missed(f"{label}!{name}", "cut off, or longer than the bounds")
    elif getattr(decoder, "unused_data", b"").strip(b"\0"):
        budget.missed(f"{label}!{name}", "data after the stream")
    yield name, budget.take(piece)


def _why(error: Exception) -> str:
    """The kind of an error, and whether a password is what is missing; never text out of the archive."""
    return "encrypted" if "encrypted" in str(error) or "password" in str(error) else type(error).__name__


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
