"""Of a sanitizer's long report the few lines that tell what and where."""

from __future__ import annotations

import re

_REPORT = re.compile(
    r"ERROR: AddressSanitizer|runtime error:| #\d+ .* in (?!__)[^/]* [\w./-]+:\d+|^(READ|WRITE) of size"
)
_HEAD = re.compile(r"^==\d+==ERROR: AddressSanitizer: |^[\w./-]+:\d+(:\d+)?: runtime error: ", re.M)
_HOST_FRAME = re.compile(r" (\.\./|/)[\w./-]+:\d+")
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07|[\x00-\x08\x0b-\x1f\x7f]")


def telling_lines(output: str, max_chars: int) -> str:
    """What was reported, how, and the frames in the project; empty where `output` holds no report."""
    plain = _CONTROL.sub("", output)
    if not _HEAD.search(plain):
        return ""
    telling = [
        line.strip() for line in plain.split("\n") if _REPORT.search(line) and not _HOST_FRAME.search(line)
    ]
    short = [
        re.sub(r" 0x[0-9a-f]+ in | at pc .*$| on address 0x.*$", " ", line).strip() for line in telling[:6]
    ]
    return "\n".join(short)[:max_chars]


def no_report(output: str, max_chars: int) -> str:
    """The end of what a program said that reported nothing."""
    text = f"No report.\n{_CONTROL.sub('', output).strip()}".strip()
    return text if len(text) <= max_chars else "…" + text[-max_chars + 1 :]
