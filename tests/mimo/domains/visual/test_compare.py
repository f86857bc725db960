"""Likeness of pictures: equal pixels and structure, and what is refused before anything is decoded."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from mimo.domains.visual.compare import (
    MAX_PICTURE_BYTES,
    TOLERANCE,
    NoPicture,
    Similarity,
    cropped,
    decoded,
    similarity,
)


def png(pixels: np.ndarray, mode: str = "RGB") -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(out, format="PNG")
    return out.getvalue()


def plain(level: int, size: int = 20) -> np.ndarray:
    return np.full((size, size, 3), level, dtype=np.uint8)


def test_the_share_of_equal_pixels_counts_pixels() -> None:
    """A worked number: 2 of 400 pixels are off, and what stays within the tolerance does not count."""
    one, other = plain(100), plain(100)
    other[0, :2] = (100, 100, 100 + TOLERANCE + 1)
    other[5:9] = 100 + TOLERANCE
    assert similarity(one, other).pixels == 0.995
    assert similarity(one, other) == similarity(other, one)
    assert similarity(one, one) == Similarity(pixels=1.0, structure=1.0)
    noise = np.random.default_rng(0).integers(0, 255, (20, 20, 3)).astype(np.uint8)
    assert similarity(noise, 255 - noise).structure == 0.0, "a likeness below 0 is none"


def test_transparent_is_white_and_grey_is_a_colour() -> None:
    clear = np.zeros((20, 20, 4), dtype=np.uint8)
    assert (decoded(png(clear, "RGBA"), width=20, height=20) == 255).all()
    assert (decoded(png(plain(7), "L"), width=20, height=20) == 7).all()


def giant() -> bytes:
    """A few bytes that claim 60000 x 60000 pixels."""
    head = struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(b"0")), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (png(plain(0, 21)), "21 x 21 pixels, not 20 x 20"),
        (giant(), "no PNG: Image size"),
        (b"GIF89a", "no PNG"),
        (b"", "no PNG"),
        (png(plain(0))[:45], "no PNG"),
        (b"\0" * (MAX_PICTURE_BYTES + 1), "more than"),
    ],
)
def test_what_is_no_picture_of_the_size_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(NoPicture, match=why):
        decoded(data, width=20, height=20)


def test_the_upper_left_part_is_cut_out() -> None:
    pixels = plain(0)
    pixels[:4, :6] = 200
    part = decoded(cropped(png(pixels), window=(20, 20), width=6, height=4), width=6, height=4)
    assert part.shape == (4, 6, 3)
    assert (part == 200).all()
