"""The harness `write-input`: its parser, inputs as they are written, and what a run shows."""

from __future__ import annotations

import random

import pytest

from mimo.harnesses.sanitizer_lines import no_report, telling_lines
from mimo.harnesses.visible_tests import shortened
from mimo.harnesses.write_input import WriteInput, escaped, unescaped

REPORT = """=================================================================
==7==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x602000000014 at pc 0x557be0e6eb3a
WRITE of size 11 at 0x602000000014 thread T0
    #0 0x557be0e6eb39 in __interceptor_strcpy.part.0 (/work/bin/program+0x45b39)
    #1 0x557be0f0eef3 in put_title src/store.c:6
    #2 0x557be0f0f6e4 in main src/main.c:11
    #3 0x7f3f1c06d249 in __libc_start_call_main ../sysdeps/nptl/libc_start_call_main.h:58
"""


@pytest.mark.parametrize(
    ("text", "name", "rules"),
    [
        ('<look path="src/a.c"/>', "look", []),
        ('<look path="a.c" lines="3-9"/>', "look", []),
        ("It is too long. <input>aaaa</input>", "input", []),
        ("<input>if (a < b) x[3]</input>", "input", []),
        ("<input></input>", "input", []),
        ("<run/>", "run", []),
        ("<submit/>", "submit", []),
        ("<input>aaaa", None, ["malformed-markup"]),
        ('<input path="a">a</input>', None, ["malformed-arguments"]),
        ('<look path="../private"/>', None, ["malformed-arguments"]),
        ("<run/><submit/>", "run", ["several-actions"]),
        ("<test/>", None, ["unknown-tool"]),
        ("no action", None, ["empty-turn"]),
    ],
)
def test_parser(text: str, name: str | None, rules: list[str]) -> None:
    parsed = WriteInput(3).parse(text)
    assert (parsed.call.name if parsed.call else None) == name
    assert [fault.rule for fault in parsed.malformed] == rules
    if parsed.call is not None and not rules:
        assert WriteInput(3).parse(WriteInput(3).say(parsed.call)).call == parsed.call


def test_any_bytes_can_be_written_and_come_back() -> None:
    rng = random.Random(1)
    for _ in range(300):
        data = bytes(rng.choice((0, 9, 10, 13, 60, 62, 92, 97, 120, 200)) for _ in range(rng.randrange(9)))
        text = escaped(data)
        assert WriteInput(3).parse(f"<input>{text}</input>").malformed == ()
        back = unescaped(text)
        assert back == data or (data.endswith(b"\n") and back == data[:-1])


@pytest.mark.parametrize(
    ("body", "data"),
    [
        ("abc", b"abc"),
        ("\nabc\n", b"abc"),
        ("\n\nabc\n\n", b"\nabc\n"),
        (r"a\x00\n\t\\\0", b"a\0\n\t\\\0"),
        ("é", "é".encode()),
    ],
)
def test_inputs_as_written(body: str, data: bytes) -> None:
    assert unescaped(body) == data


@pytest.mark.parametrize("body", [r"\q", r"\x4", r"\xzz", "a\\"])
def test_an_unknown_escape_is_said(body: str) -> None:
    with pytest.raises(ValueError, match=r"\\"):
        unescaped(body)


def test_a_report_is_shown_short() -> None:
    text = telling_lines(f"\x1b[1mhello\x1b[0m\n{REPORT}", 600)
    assert text.split("\n") == [
        "==7==ERROR: AddressSanitizer: heap-buffer-overflow",
        "WRITE of size 11 at 0x602000000014 thread T0",
        "#1 put_title src/store.c:6",
        "#2 main src/main.c:11",
    ]
    assert shortened(REPORT + "shadow bytes\n" * 900, 600) == text
    assert telling_lines("fine", 600) == ""
    assert no_report("fine", 600) == "No report.\nfine"
    assert len(no_report("x" * 5000, 600)) == 600
