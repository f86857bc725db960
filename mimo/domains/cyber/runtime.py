"""How a planted program is run, by the policy and by the verifier alike: sanitizer options, limits, paths."""

from __future__ import annotations

PROGRAM = "bin/program"
"""Where the built program lies in the work tree."""
INPUT = "input.txt"
"""The only file of the work tree that a policy's changes are judged by."""
COMMAND = "./run"
"""How a policy runs the program, in the work tree."""
MAX_INPUT_BYTES = 65_536
STACK_BYTES = 8 << 20
"""The stack that a program gets whatever the box has: what overflows it must not depend on the machine."""
ADDR_NO_RANDOMIZE = 0x0040000
"""personality(2): with 32 bits of address randomisation, GCC 12's AddressSanitizer sometimes cannot start."""

ASAN_OPTIONS = {
    "detect_leaks": "0",  # LeakSanitizer needs ptrace, which a box denies; a leak is no bug to be found here
    "abort_on_error": "0",
    "allocator_may_return_null": "0",
    "detect_stack_use_after_return": "0",
    "malloc_fill_byte": "190",  # what is read before it was written is the same in every run
    "max_malloc_fill_size": "4096",
    "quarantine_size_mb": "16",
    "symbolize": "1",  # by the symbolizer inside the program: no other program is started
    "handle_ioctl": "0",
}
UBSAN_OPTIONS = {"print_stacktrace": "1", "symbolize": "1"}


def options(chosen: dict[str, str], **more: str) -> str:
    """Sanitizer options as the runtime reads them from its environment variable."""
    return ":".join(f"{key}={value}" for key, value in {**chosen, **more}.items())


RUN_SCRIPT = f'''#!/usr/bin/python3 -ISB
"""Run {PROGRAM} on {INPUT}: sanitizer options, a fixed address layout and a fixed stack first."""
import ctypes
import os
import resource

os.chdir(os.path.dirname(os.path.abspath(__file__)))
ctypes.CDLL(None).personality({ADDR_NO_RANDOMIZE:#x})
resource.setrlimit(resource.RLIMIT_STACK, ({STACK_BYTES}, {STACK_BYTES}))
environment = {{
    "ASAN_OPTIONS": "{options(ASAN_OPTIONS)}",
    "UBSAN_OPTIONS": "{options(UBSAN_OPTIONS)}",
}}
os.execve("{PROGRAM}", ["program", "{INPUT}"], environment)
'''
"""`./run` of a work tree."""
