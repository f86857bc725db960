"""A work tree whose `.git` was made anew from what its base commit can reach: nothing else is left to find.

Cleaning a repository leaves objects behind (packs kept by hand, stashes, notes, other people's folders);
rebuilding it from `git rev-list --objects BASE` does not. For trusted source repositories only: git runs on
them here.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Literal

from sandbox.git_check import check_git
from sandbox.git_run import GitRebuildError, find_git, remove_git, run_git
from sandbox.paths import remove_tree
from sandbox.scratch import temporary_parent
from sandbox.snapshot import MTIME

__all__ = [
    "GitRebuildError",
    "check_git",
    "find_git",
    "init_git",
    "pack_history",
    "rebuild_git",
    "remove_git",
    "unpack_history",
    "unreached",
]

_CONFIG = (
    "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = false\n"
    "[gc]\n\tauto = 0\n"
)
_NAME, _EMAIL = "base", "base@localhost"


def rebuild_git(
    source_repo: Path, base_commit: str, dest_tree: Path, history: Literal["past", "none"] = "past"
) -> str:
    """The commit that `dest_tree` stands on, with a new `.git` that holds what `base_commit` reaches and
    nothing else.

    A missing or empty `dest_tree` is filled with the base's files. In a filled one the files stay as they
    are (the caller answers for them) and every `.git` in it is replaced by the one new one. All times become
    the same.

    Args:
        source_repo: a trusted work tree or bare repository.
        history: "past" keeps the base's ancestors; "none" makes one parentless commit of the base's tree.

    Raises:
        GitRebuildError: no such commit, or objects are missing (a shallow or partial clone).
    """
    base = run_git(
        "-C", str(source_repo), "rev-parse", "--verify", "--end-of-options", f"{base_commit}^{{commit}}"
    )
    commit = base.decode().strip()
    tree = run_git("-C", str(source_repo), "rev-parse", "--verify", f"{commit}^{{tree}}").decode().strip()
    start = commit if history == "past" else tree
    pack = _pack(source_repo, start)
    dest_tree.mkdir(parents=True, exist_ok=True)
    empty = not any(dest_tree.iterdir())
    remove_git(dest_tree)
    git_dir = dest_tree / ".git"
    _empty_repository(git_dir)
    here = f"--git-dir={git_dir}"
    run_git(here, "index-pack", "--stdin", data=pack)
    if history == "none":
        date = run_git("-C", str(source_repo), "show", "-s", "--format=%ct", commit).decode().strip()
        commit = commit_tree(git_dir, tree, "base", int(date))
        _repack(git_dir, commit)
    (git_dir / "refs/heads/main").write_text(f"{commit}\n")
    missing = run_git(here, "rev-list", "--objects", "--missing=print", commit).decode()
    if any(line.startswith("?") for line in missing.splitlines()):
        raise GitRebuildError(
            f"{source_repo} lacks objects that {base_commit} needs", hint="use a full clone"
        )
    _fill(dest_tree, git_dir, checkout=empty)
    set_times(dest_tree)
    return commit


def pack_history(source_repo: Path, base_commit: str) -> bytes:
    """One pack with what `base_commit` of a trusted repository reaches, and nothing else.

    Raises:
        GitRebuildError: no such commit, or objects are missing (a shallow or partial clone).
    """
    return _pack(source_repo, base_commit)


def unpack_history(pack: Path, git_dir: Path) -> None:
    """Make `git_dir` a bare repository with the objects of a pack that `pack_history` made.

    Raises:
        GitRebuildError: the pack is damaged.
    """
    _empty_repository(git_dir)
    run_git(f"--git-dir={git_dir}", "index-pack", "--stdin", data=pack.read_bytes())


def unreached(source_repo: Path, base_commit: str) -> int:
    """How many objects a trusted repository holds that `base_commit` does not reach.

    Raises:
        GitRebuildError: no such commit, or objects are missing.
    """
    here = ("-C", str(source_repo))
    every = run_git(*here, "cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objectname)")
    reached = run_git(
        *here, "rev-list", "--objects", "--no-object-names", "--end-of-options", base_commit, "--"
    )
    return len(set(every.splitlines()) - set(reached.splitlines()))


def _pack(source: Path, start: str) -> bytes:
    objects = run_git("-C", str(source), "rev-list", "--objects", "--no-object-names", start)
    return run_git("-C", str(source), *_PACK_OPTIONS, "--stdout", data=objects)


_PACK_OPTIONS = (
    "-c",
    "pack.threads=1",
    "pack-objects",
    "-q",
    "--no-reuse-delta",
    "--window=10",
    "--depth=50",
)


def _empty_repository(git_dir: Path) -> None:
    for name in ("objects/pack", "objects/info", "refs/heads"):
        (git_dir / name).mkdir(parents=True)
    (git_dir / "HEAD").write_text("ref: refs/heads/main\n")
    (git_dir / "config").write_text(_CONFIG)


def commit_tree(git_dir: Path, tree: str, message: str, date: int) -> str:
    """A parentless commit of `tree` with a fixed author, at `date` seconds since 1970, UTC."""
    who = {
        f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in _who(date).items()
    }
    made = run_git(f"--git-dir={git_dir}", "commit-tree", tree, "-F", "-", data=message.encode(), **who)
    return made.decode().strip()


def _who(date: int) -> dict[str, str]:
    return {"NAME": _NAME, "EMAIL": _EMAIL, "DATE": f"@{date} +0000"}


def _repack(git_dir: Path, commit: str) -> None:
    """One pack with exactly what `commit` reaches; everything else in the object store goes."""
    pack = _pack(git_dir, commit)
    remove_tree(git_dir / "objects")
    (git_dir / "objects/pack").mkdir(parents=True)
    (git_dir / "objects/info").mkdir()
    run_git(f"--git-dir={git_dir}", "index-pack", "--stdin", data=pack)


def _fill(tree: Path, git_dir: Path, *, checkout: bool) -> None:
    """The index of the base commit without file times (equal for equal commits), and the files if asked."""
    here = (f"--git-dir={git_dir}", f"--work-tree={tree}")
    run_git(*here, "read-tree", "main")
    if checkout:
        run_git(*here, "checkout-index", "--all", "--force")
    for path in (git_dir / "objects/pack").iterdir():
        path.chmod(0o644)
        if path.suffix == ".rev":
            path.unlink()


def set_times(tree: Path, when: int = MTIME) -> None:
    """Give every file, folder and link below `tree` the same time."""
    for folder, folders, files in os.walk(tree, topdown=False):
        for name in (*files, *folders):
            os.utime(os.path.join(folder, name), (when, when), follow_symlinks=False)
    os.utime(tree, (when, when))


def init_git(tree: Path, message: str = "base", date: int = MTIME) -> str:
    """The commit made of a plain, trusted folder's files, in a new `.git`: equal files, equal commit.

    Every `.git` in the folder is removed first; ignored files are committed too. Author and times are fixed.
    """
    remove_git(tree)
    with tempfile.TemporaryDirectory(prefix="mimo-git-", dir=temporary_parent()) as folder:
        git_dir = Path(folder, "git")
        _empty_repository(git_dir)
        here = (f"--git-dir={git_dir}", f"--work-tree={tree}")
        run_git(*here, "add", "--all", "--force")
        content = run_git(*here, "write-tree").decode().strip()
        commit = commit_tree(git_dir, content, message, date)
        return rebuild_git(git_dir, commit, tree)
