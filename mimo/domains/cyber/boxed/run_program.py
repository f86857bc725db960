"""Run the program under test once in the verifier's box; print one signed line with what it reported.

The plan (JSON) comes on standard input: key, argv, environment, workdir, stack_bytes, cpu_s, wall_s,
max_bytes. The program's own output goes nowhere: only the sanitizer's log counts, in a folder whose name
nobody was told.
The key never leaves this process, whose memory others cannot read.
"""

import base64
import ctypes
import hashlib
import hmac
import json
import os
import resource
import secrets
import signal
import sys
import time
from pathlib import Path
from typing import Any

PR_SET_DUMPABLE = 4
ADDR_NO_RANDOMIZE = 0x0040000


def start(plan: dict[str, Any], folder: str) -> int:
    """The program's process id; it leads its own process group."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        null = os.open("/dev/null", os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)
        os.closerange(3, 4096)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (plan["cpu_s"], plan["cpu_s"]))
        resource.setrlimit(resource.RLIMIT_STACK, (plan["stack_bytes"], plan["stack_bytes"]))
        os.chdir(plan["workdir"])
        environment = {
            name: text.replace("@log", f"{folder}/report") for name, text in plan["environment"].items()
        }
        os.execve(plan["argv"][0], ["program", *plan["argv"][1:]], environment)
    finally:
        os._exit(125)


def wait(pid: int, wall_s: float) -> tuple[int, bool]:
    """The exit code (negative: the signal) of the program, and whether it was stopped by the clock."""
    end, slow = time.monotonic() + wall_s, False
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), slow
        if time.monotonic() > end and not slow:
            slow = True
            os.killpg(pid, signal.SIGKILL)
        time.sleep(0.002)


def reports(folder: str, max_bytes: int) -> dict[str, str]:
    """Name to content (base64) of what lies in the log folder; only regular files, their first bytes."""
    found = {}
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name)[:8]:
        if entry.is_file(follow_symlinks=False):
            with open(entry.path, "rb") as file:
                found[entry.name] = base64.b64encode(file.read(max_bytes)).decode()
        else:
            found[entry.name] = ""
    return found


def main() -> None:
    """One run."""
    library = ctypes.CDLL(None)
    library.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    fixed = library.personality(ADDR_NO_RANDOMIZE) != -1  # for programs started from now on
    plan = json.load(sys.stdin)
    folder = f"/tmp/{secrets.token_hex(12)}"
    Path(folder).mkdir(mode=0o700)
    pid = start(plan, folder)
    code, slow = wait(pid, plan["wall_s"])
    seen = {"pid": pid, "code": code, "timed_out": slow, "fixed_layout": fixed}
    body = json.dumps({**seen, "reports": reports(folder, plan["max_bytes"])})
    signature = hmac.new(plan["key"].encode(), body.encode(), hashlib.sha256).hexdigest()
    print(f"\nMIMO {signature} {body}", flush=True)


main()
