"""Read a sanitizer's report: the vulnerability type and the topmost frame of the project.

Types are AddressSanitizer's own words (`heap-buffer-overflow`, `double-free`, ...) and, for UBSan, one word
for each kind of message. A report comes from a program that works on hostile input, so the reader is strict:
plain text, exactly one report, at the very start, with the process id of the run; all else is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from mimo.types import record

MAX_REPORT_BYTES = 65_536
_ADDRESS = re.compile(
    r"==(?P<pid>\d+)==ERROR: AddressSanitizer: "
    r"(?P<what>attempting double-free|attempting free on address which was not malloc\(\)-ed"
    r"|requested allocation size|[A-Za-z][A-Za-z-]*)"
)
_UNDEFINED = re.compile(r"(?P<file>[\w./-]+):\d+(?::\d+)?: runtime error: (?P<what>.+)")
_FRAME = re.compile(
    r" +#(?P<number>\d+) 0x[0-9a-f]+ in (?P<function>.+?) (?P<file>[\w./+-]+):(?P<line>\d+)(?::\d+)?"
)
_OTHER_FRAME = re.compile(r" +#(?P<number>\d+) 0x[0-9a-f]+ .*")
_ADDRESS_WORDS = {
    "attempting double-free": "double-free",
    "attempting free on address which was not malloc()-ed": "bad-free",
    "requested allocation size": "allocation-size-too-big",
}
_UNDEFINED_KINDS = tuple(
    (re.compile(pattern), kind)
    for pattern, kind in (
        (r"signed integer overflow: ", "signed-integer-overflow"),
        (r"negation of ", "signed-integer-overflow"),
        (r"division of .* by -1 cannot", "signed-integer-overflow"),
        (r"division by zero$", "division-by-zero"),
        (r"shift exponent ", "shift-exponent"),
        (r"left shift of ", "shift-base"),
        (r"index .* out of bounds for type ", "out-of-bounds-index"),
        (
            r"(member access within|member call on|load of|store to|reference binding to) null pointer ",
            "null-pointer",
        ),
        (r"load of value .* not a valid value for type '(_Bool|bool)'$", "invalid-bool-load"),
        (r"load of value ", "invalid-enum-load"),
        (r".* misaligned address ", "misaligned-pointer"),
        (r".* with insufficient space for an object", "object-size"),
        (
            r"(applying .* to null pointer|pointer index expression|.* produced null pointer)",
            "pointer-overflow",
        ),
        (r"variable length array bound ", "vla-bound"),
        (r"execution reached ", "missing-return"),
    )
)


TYPES = (
    "heap-buffer-overflow",
    "stack-buffer-overflow",
    "stack-buffer-underflow",
    "global-buffer-overflow",
    "heap-use-after-free",
    "stack-use-after-scope",
    "stack-overflow",
    "negative-size-param",
    "alloc-dealloc-mismatch",
    "SEGV",
    *_ADDRESS_WORDS.values(),
    *dict.fromkeys(kind for _, kind in _UNDEFINED_KINDS),
    "undefined-behavior",
)
"""The words for types; AddressSanitizer has a few more, which no family of ours reports."""
_LINES_BEFORE_STACK = 5


class NoReport(Exception):
    """The text is not exactly one report of one run; the message says why."""


@record
class Report:
    """What was reported: the type, and function, file and line of the topmost frame in the project."""

    type: str
    function: str
    file: str
    line: int


def read_report(data: bytes, *, pid: int, sources: Collection[str], workdir: str) -> Report:
    """The one report in `data`.

    Args:
        data: the sanitizer's log of one run.
        pid: process id of the run, which AddressSanitizer's report must name.
        sources: paths of the project's files, relative to `workdir`.

    Raises:
        NoReport: no report, more than one, not at the start, not plain text, cut, or no frame in the project.
    """
    lines = _plain(data).split("\n")
    first = next((n for n, line in enumerate(lines) if line and set(line) != {"="}), None)
    if first is None:
        raise NoReport("the log is empty")
    kind = _kind(lines[first], pid)
    more = [
        line for line in lines[first + 1 :] if "ERROR: AddressSanitizer" in line or "runtime error:" in line
    ]
    if more:
        raise NoReport("more than one report in the log")
    for function, file, line in _first_stack(lines[first + 1 :]):
        path = file.removeprefix(workdir.rstrip("/") + "/").removeprefix("./")
        if path in sources:
            return Report(type=kind, function=_bare(function), file=path, line=line)
    raise NoReport(f"{kind}, but no frame of the project is in its stack")


def _plain(data: bytes) -> str:
    if len(data) >= MAX_REPORT_BYTES:
        raise NoReport("the log is too long")
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError as error:
        raise NoReport("the log is not plain text") from error
    if any(char != "\n" and not " " <= char <= "~" for char in text):
        raise NoReport("the log holds control characters")
    return text


def _kind(line: str, pid: int) -> str:
    if match := _ADDRESS.match(line):
        if int(match["pid"]) != pid:
            raise NoReport("the report is of another process")
        return _ADDRESS_WORDS.get(match["what"], match["what"])
    match = _UNDEFINED.fullmatch(line)
    if match is None:
        raise NoReport("the log does not start with a report")
    return next(
        (kind for pattern, kind in _UNDEFINED_KINDS if pattern.match(match["what"])), "undefined-behavior"
    )


def _first_stack(lines: Sequence[str]) -> list[tuple[str, str, int]]:
    """Function, file and line of the frames with a source in the report's first stack, numbered from 0."""
    stack: list[tuple[str, str, int]] = []
    number = skipped = 0
    for line in lines:
        any_frame = _OTHER_FRAME.fullmatch(line)
        if any_frame is None or int(any_frame["number"]) != number:
            if number or skipped == _LINES_BEFORE_STACK:
                break
            skipped += 1
            continue
        number += 1
        if frame := _FRAME.fullmatch(line):
            stack.append((frame["function"], frame["file"], int(frame["line"])))
    return stack


def _bare(function: str) -> str:
    """The name without parameters: `Ticket::price() const` is `Ticket::price`."""
    return function.split("(")[0].split("<")[0].strip()
