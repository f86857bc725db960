"""Running git on trusted repositories with an environment of its own, and finding every `.git`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from sandbox.errors import SandboxError
from sandbox.paths import remove_tree

GIT_ENV = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/nonexistent",
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_GRAFT_FILE": "/dev/null",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_CONFIG_COUNT": "3",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
    "GIT_CONFIG_KEY_1": "protocol.allow",
    "GIT_CONFIG_VALUE_1": "never",
    "GIT_CONFIG_KEY_2": "core.commitGraph",
    "GIT_CONFIG_VALUE_2": "false",
}


class GitRebuildError(SandboxError):
    """The source repository does not hold what was asked for, or git failed."""


def run_git(*arguments: str, data: bytes | None = None, **env: str) -> bytes:
    """What `git ARGUMENTS` prints, run with an environment of its own: no user or system configuration.

    Raises:
        GitRebuildError: git failed; the message holds what it said.
    """
    command = ["git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", *arguments]
    done = subprocess.run(command, input=data, capture_output=True, env={**GIT_ENV, **env}, check=False)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()[-500:]
        raise GitRebuildError(
            f"git {' '.join(arguments[:6])}: {said}", hint="is it a whole, trusted repository?"
        )
    return done.stdout


def find_git(tree: Path) -> list[Path]:
    """Every `.git` below `tree`, folder or file; links are not followed."""
    found = []
    for folder, folders, files in os.walk(tree):
        found += [Path(folder, name) for name in (*folders, *files) if name == ".git"]
        folders[:] = [name for name in folders if name != ".git"]
    return sorted(found)


def remove_git(tree: Path) -> None:
    """Remove every `.git` below `tree`."""
    for path in find_git(tree):
        if path.is_dir() and not path.is_symlink():
            remove_tree(path)
        else:
            path.unlink()
