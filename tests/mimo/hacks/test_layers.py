"""Decoding is bounded; needles are exact."""

from __future__ import annotations

import gzip
import io
import time
import zipfile
import zlib

from hypothesis import given, settings
from hypothesis import strategies as st

from mimo.hacks.layers import MAX_DECODED, layers
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
