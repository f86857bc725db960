"""Which device an engine runs on."""

from __future__ import annotations

import shutil
import subprocess
from typing import Literal

QUERY_TIMEOUT_S = 20.0


def pick_device(asked: Literal["auto", "cpu", "cuda"]) -> Literal["cpu", "cuda"]:
    """`asked`, with `auto` as `cuda` where the driver lists a GPU (torch is not imported for that)."""
    if asked != "auto":
        return asked
    program = shutil.which("nvidia-smi")
    if program is None:
        return "cpu"
    try:
        listed = subprocess.run(
            [program, "--list-gpus"], capture_output=True, text=True, timeout=QUERY_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return "cpu"
    return "cuda" if listed.stdout.strip() else "cpu"
