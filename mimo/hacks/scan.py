"""The static probes on any checkout: families A, B and C, without a box or a recipe."""

from __future__ import annotations

from pathlib import Path

from mimo.errors import RecipeError
from mimo.hacks.git_view import GitError, GitView
from mimo.hacks.needles import Secrets, added_text
from mimo.hacks.probe import find_leaks
from mimo.hacks.scene import open_scene
from mimo.types import LeakFinding


def scan_checkout(path: Path, base: str | None, diff: bytes = b"") -> list[LeakFinding]:
    """What the probes find in the checkout at `path`, most severe first.

    Args:
        base: (part of) the id of the commit a policy would start from; None leaves git out.
        diff: a unified diff whose added lines are looked for.

    Raises:
        RecipeError: no such folder, or the commit is not in its repository.
    """
    if not path.is_dir():
        raise RecipeError(f"no folder {path}", hint="name the checkout to look at")
    if base is not None:
        _require_commit(path, base)
    try:
        with open_scene(path, base, Secrets(reference=added_text(diff)), strict=False) as scene:
            findings = find_leaks(scene)
    except GitError as error:
        raise RecipeError(f"{path}: {error}") from error
    order = {"critical": 0, "leak": 1, "info": 2}
    return [
        found.record() for found in sorted(findings, key=lambda found: (order[found.severity], found.path))
    ]


def _require_commit(path: Path, base: str) -> None:
    git_dir = path / ".git"
    if not git_dir.is_dir():
        raise RecipeError(f"{path} has no .git folder", hint="leave --base out to look at the files alone")
    try:
        with GitView(git_dir) as view:
            view.commit(base)
    except GitError as error:
        raise RecipeError(
            f"no commit {base!r} in {path}",
            hint="give (part of) a commit's id; names of branches are not read",
        ) from error
