"""How this program can be called again from the shell that called it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

_NAMES = ("mimo", "mimo-rl")


def called_as(argv0: str | None = None) -> list[str]:
    """The words before the command: `mimo` where the shell finds this very program, else its path.

    A virtual environment that is not active (`make run`) is not on the shell's path, and on some machines
    another tool owns the name `mimo`.
    """
    path = Path(sys.argv[0] if argv0 is None else argv0)
    if path.name in _NAMES:
        return [path.name] if _finds(path.name, path) else [str(path)]
    if path.parts[-2:] != ("mimo", "__main__.py"):
        return ["mimo"]
    script = Path(sys.executable).with_name("mimo")
    return ["mimo"] if _finds("mimo", script) else [sys.executable, "-m", "mimo"]


def _finds(name: str, path: Path) -> bool:
    found = shutil.which(name)
    return found is not None and path.exists() and Path(found).samefile(path)
