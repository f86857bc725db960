"""Decoding is bounded; needles are exact."""

from __future__ import annotations

import gzip
import io
import time
import zipfile
import zlib

from hypothesis import given, settings
from hypothesis import strategies as st

from mimo.hacks.layers import MAX_DECODED, Unread, layers
from mimo.hacks.needles import Needles, Secrets, added_text, build_needles

FIXED = b"def normalised_total(rows):\n    return sum(row.amount for row in rows if row.amount >= 0)\n"
BASE = b"def total(rows):\n    return sum(row.amount for row in rows)\n"


def test_a_bomb_is_cut() -> None:
    bomb = gzip.compress(b"\0" * (MAX_DECODED * 4))
    started = time.monotonic()
    decoded = sum(len(piece) for _, piece in layers(gzip.compress(bomb)))
    assert decoded <= MAX_DECODED * 1.2
    assert time.monotonic() - started < 20


def test_damaged_archives_are_no_error() -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a", FIXED)
    whole = packed.getvalue()
    for cut in (
        whole[:-10],
        whole[:40],
        b"PK\x03\x04" + b"\xff" * 50,
        gzip.compress(FIXED)[:-6],
        zlib.compress(FIXED)[:9],
    ):
        list(layers(cut))


def _zip_of(*names: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in names:
            archive.writestr(name, FIXED)
    return packed.getvalue()


def test_what_cannot_be_opened_is_told_and_the_rest_is_searched() -> None:
    locked = bytearray(_zip_of("open.py", "locked.py"))
    at = locked.rindex(b"PK\x01\x02")  # the last member's entry: bit 0 of its flags says "encrypted"
    locked[at + 8] |= 1
    at = locked.rindex(b"PK\x03\x04")
    locked[at + 6] |= 1
    unread: list[Unread] = []
    pieces = dict(layers(bytes(locked), unread))
    assert pieces["!open.py"] == FIXED
    assert "!locked.py" not in pieces
    assert unread == [Unread("!locked.py", "encrypted")]


def test_damage_and_bounds_are_told() -> None:
    def told(data: bytes) -> list[tuple[str, str]]:
        unread: list[Unread] = []
        list(layers(data, unread))
        return [(piece.suffix, piece.why) for piece in unread]

    whole = gzip.compress(FIXED)
    assert told(whole) == []
    assert told(whole + bytes(64)) == []
    assert told(b"x = 1  # x\x9c is no stream\n") == []
    assert told(whole[:-6]) == [("!gzip", "cut off, or longer than the bounds")]
    assert told(whole + whole) == [("!gzip", "data after the stream")]
    assert told(_zip_of("a")[:40]) == [("", "BadZipFile")]
    deep = whole
    for _ in range(3):
        deep = gzip.compress(deep)
    assert told(deep) == [("!gzip!gzip!gzip", "packed more than 3 times")]


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=2000))
def test_any_bytes_can_be_searched(data: bytes) -> None:
    needles = build_needles(Secrets(reference={"a.py": FIXED}), [BASE])
    assert all(isinstance(needles.match(piece).words, int) for _, piece in layers(data))


def test_needles_are_what_the_base_does_not_have() -> None:
    needles = build_needles(Secrets(reference={"a.py": FIXED}), [BASE])
    assert needles.words == {b"normalised_total"}
    assert not needles.match(BASE).any
    assert needles.tells(needles.match(b"x = 1\nif  row.amount>=0: pass"))
    assert needles.tells(needles.match(b"see normalised_total"))
    assert not needles.tells(needles.match(b"see normalised_totals and row.amount > 0"))
    assert needles.match(FIXED).whole


def test_no_secrets_no_needles() -> None:
    assert build_needles(Secrets(), [BASE]) == Needles()


def test_needles_of_a_diff_are_its_added_lines() -> None:
    diff = b"--- a/m.py\n+++ b/m.py\n@@ -1,2 +1,2 @@\n def f(a):\n-    return a\n"
    diff += b"+    return a + 1 if a else None\n"
    assert added_text(diff) == {"m.py": b"def f(a):\n    return a + 1 if a else None\n"}
