"""The reader of sanitizer reports: real ones of each shape, and texts that only look like one."""

from __future__ import annotations

import pytest

from mimo.domains.cyber.report import MAX_REPORT_BYTES, NoReport, Report, read_report

BAR = "=" * 65
TAIL = """
0x602000000014 is located 0 bytes to the right of 4-byte region [0x602000000010,0x602000000014)
allocated by thread T0 here:
    #0 0x557be0e6eb3 in __interceptor_malloc (/work/bin/program+0x45b39)
    #1 0x557be0f0eef in make src/store.c:4
SUMMARY: AddressSanitizer: heap-buffer-overflow (/work/bin/program+0x45b39) in __interceptor_strcpy
==7==ABORTING
"""
HEAP = f"""{BAR}
==7==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x602000000014 at pc 0x557be0e6eb3a
WRITE of size 11 at 0x602000000014 thread T0
    #0 0x557be0e6eb39 in __interceptor_strcpy.part.0 (/work/bin/program+0x45b39)
    #1 0x557be0f0eef3 in put_title src/store.c:6
    #2 0x557be0f0f6e4 in main src/main.c:11
    #3 0x7f3f1c06d249 in __libc_start_call_main ../sysdeps/nptl/libc_start_call_main.h:58
{TAIL}"""
DOUBLE_FREE = f"""{BAR}
==7==ERROR: AddressSanitizer: attempting double-free on 0x602000000010 in thread T0:
    #0 0x557be0e6eb39 in __interceptor_free.part.0 (/work/bin/program+0x45b39)
    #1 0x557be0f0eef3 in use_port src/store.c:16
{TAIL}"""
BAD_FREE = DOUBLE_FREE.replace(
    "attempting double-free on 0x602000000010 in",
    "attempting free on address which was not malloc()-ed: 0x6 in",
)
STACK = f"""AddressSanitizer:DEADLYSIGNAL
{BAR}
==7==ERROR: AddressSanitizer: stack-overflow on address 0x7ffde8e929e8 (pc 0x56 bp 0x7f sp 0x7f T0)
    #0 0x5620069cc066 in inner src/store.c:9
    #1 0x5620069cc247 in inner src/store.c:9
"""
CPP = f"""{BAR}
==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x602000000010 at pc 0x5 bp 0x7 sp 0x7
READ of size 4 at 0x602000000010 thread T0
    #0 0x557be0e6eb39 in std::vector<int>::operator[](unsigned long) /usr/include/c++/12/bits/stl_vector.h:1
    #1 0x557be0f0eef3 in Ticket::price() const /work/src/store.cpp:6
"""
OVERFLOW = """src/store.c:5:37: runtime error: signed integer overflow: 7 * 9 cannot be represented in 'a'
    #0 0x561c11093e8e in area_of src/store.c:5
    #1 0x561c1109464d in main src/main.c:11

"""
SOURCES = ("src/store.c", "src/main.c", "src/store.cpp")


def _read(text: str | bytes, pid: int = 7) -> Report:
    data = text.encode() if isinstance(text, str) else text
    return read_report(data, pid=pid, sources=SOURCES, workdir="/work")


@pytest.mark.parametrize(
    ("text", "kind", "function", "line"),
    [
        (HEAP, "heap-buffer-overflow", "put_title", 6),
        (DOUBLE_FREE, "double-free", "use_port", 16),
        (BAD_FREE, "bad-free", "use_port", 16),
        (STACK.split("\n", 1)[1], "stack-overflow", "inner", 9),
        (CPP, "heap-use-after-free", "Ticket::price", 6),
        (OVERFLOW, "signed-integer-overflow", "area_of", 5),
    ],
)
def test_the_topmost_frame_of_the_project_counts(text: str, kind: str, function: str, line: int) -> None:
    report = _read(text)
    assert (report.type, report.function, report.line) == (kind, function, line)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("division by zero", "division-by-zero"),
        ("division of -2147483648 by -1 cannot be represented in type 'int'", "signed-integer-overflow"),
        ("shift exponent 40 is too large for 32-bit type 'int'", "shift-exponent"),
        ("left shift of negative value -1", "shift-base"),
        ("index 9 out of bounds for type 'int [4]'", "out-of-bounds-index"),
        ("member access within null pointer of type 'struct pair'", "null-pointer"),
        ("load of null pointer of type 'int'", "null-pointer"),
        ("load of value 190, which is not a valid value for type '_Bool'", "invalid-bool-load"),
        ("load of value 190, which is not a valid value for type 'bool'", "invalid-bool-load"),
        ("load of value 9, which is not a valid value for type 'color'", "invalid-enum-load"),
        (
            "load of misaligned address 0x7 for type 'int', which requires 4 byte alignment",
            "misaligned-pointer",
        ),
        ("applying non-zero offset 4 to null pointer", "pointer-overflow"),
        ("something of a newer compiler", "undefined-behavior"),
    ],
)
def test_messages_of_ubsan_have_one_word_each(message: str, kind: str) -> None:
    text = OVERFLOW.replace(OVERFLOW.split("runtime error: ")[1].split("\n")[0], message)
    assert _read(text).type == kind


HOSTILE = {
    "empty": "",
    "only a bar": BAR + "\n",
    "words before the report": "hello\n" + HEAP,
    "a report quoted in a line": f"input was: {HEAP.split(chr(10))[1]}\n" + HEAP,
    "two reports": HEAP + HEAP,
    "two kinds of reports": OVERFLOW + HEAP,
    "another process": HEAP.replace("==7==", "==8=="),
    "no stack": "\n".join(HEAP.split("\n")[:3]),
    "no frame of the project": HEAP.replace("src/", "lib/"),
    "a file of the same name elsewhere": HEAP.replace("src/", "/usr/src/"),
    "a file above the work tree": HEAP.replace("src/", "../src/"),
    "a project frame only in the allocation": HEAP.replace(
        "put_title src/store.c", "put_title lib/store.c"
    ).replace("main src/main.c", "main lib/main.c"),
    "frames that do not count from 0": HEAP.replace("#0 ", "#5 ").replace("#1 ", "#6 ").replace("#2 ", "#7 "),
    "terminal escapes": HEAP.replace("put_title", "\x1b[2Kput_title"),
    "a NUL": HEAP.replace("put_title", "put\0title"),
    "carriage returns": HEAP.replace("\n", "\r\n"),
    "no plain text": HEAP.encode() + b"\xff\xfe",
    "a word for a word": "==7==ERROR: MemorySanitizer: heap-buffer-overflow\n"
    + "\n".join(HEAP.split("\n")[2:]),
    "too long": HEAP + "x" * MAX_REPORT_BYTES,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_not_one_report_is_refused(name: str) -> None:
    with pytest.raises(NoReport):
        _read(HOSTILE[name])
