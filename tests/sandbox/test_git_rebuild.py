"""Plants ways to a future fix in a repository, rebuilds it, and looks for the fix in every place."""

from __future__ import annotations

import os
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox.git_rebuild import GitRebuildError, check_git, find_git, init_git, rebuild_git
from sandbox.snapshot import MTIME, snapshot_tree, tree_digest

NEEDLE = "the_fix_that_must_not_leak"
FIX = f"def answer():\n    return '{NEEDLE}'\n"


def git(repo: Path, *arguments: str, data: str | None = None) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    for role in ("AUTHOR", "COMMITTER"):
        env |= {f"GIT_{role}_NAME": "a", f"GIT_{role}_EMAIL": "a@b", f"GIT_{role}_DATE": "@1600000000 +0000"}
    done = subprocess.run(
        ["git", "-C", str(repo), *arguments], input=data, capture_output=True, text=True, env=env, check=True
    )
    return done.stdout.strip()


def commit_fix(repo: Path) -> str:
    """A commit with the fix on no branch."""
    blob = git(repo, "hash-object", "-w", "--stdin", data=FIX)
    tree = git(repo, "mktree", data=f"100644 blob {blob}\tanswer.py\n")
    return git(repo, "commit-tree", tree, "-p", "HEAD", "-m", f"fix: {NEEDLE}")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def pack_of(repo: Path, commit: str, suffix: str) -> None:
    """The fix in a pack that garbage collection leaves alone."""
    objects = git(repo, "rev-list", "--objects", "--no-object-names", commit, "^HEAD")
    name = git(repo, "pack-objects", ".git/objects/pack/pack", data=objects)
    write(repo / f".git/objects/pack/pack-{name}{suffix}", "")


def stash(repo: Path) -> None:
    write(repo / "answer.py", FIX)
    git(repo, "stash")


def reflog(repo: Path) -> None:
    commit, base = commit_fix(repo), git(repo, "rev-parse", "HEAD")
    git(repo, "reset", "--hard", commit)
    git(repo, "reset", "--hard", base)


def alternates(repo: Path) -> None:
    other = repo.parent / "alternate"
    git(repo.parent, "init", "-q", str(other))
    git(other, "hash-object", "-w", "--stdin", data=FIX)
    write(repo / ".git/objects/info/alternates", f"{other}/.git/objects\n")


def nested(repo: Path) -> None:
    inner = repo / "vendor/thing"
    inner.mkdir(parents=True)
    git(inner, "init", "-q")
    write(inner / "answer.py", FIX)
    git(inner, "add", "answer.py")
    git(inner, "commit", "-qm", NEEDLE)


def packed_dangling(repo: Path) -> None:
    git(repo, "update-ref", "refs/heads/gone", commit_fix(repo))
    git(repo, "gc", "-q")
    git(repo, "update-ref", "-d", "refs/heads/gone")


def staged(repo: Path) -> None:
    blob = git(repo, "hash-object", "-w", "--stdin", data=FIX)
    git(repo, "update-index", "--add", "--cacheinfo", f"100644,{blob},hidden.py")


def submodule(repo: Path) -> None:
    git(repo, "init", "-q", "--bare", ".git/modules/sub")
    git(repo / ".git/modules/sub", "hash-object", "-w", "--stdin", data=FIX)


def ref(name: str) -> Callable[[Path], None]:
    return lambda repo: git(repo, "update-ref", name, commit_fix(repo)) and None


def git_file(name: str, text: str = FIX) -> Callable[[Path], None]:
    return lambda repo: write(repo / ".git" / name, text)


ROUTES: dict[str, Callable[[Path], object]] = {
    "branch": ref("refs/heads/fix"),
    "light tag": ref("refs/tags/v2"),
    "annotated tag": lambda repo: git(repo, "tag", "-a", "v2", "-m", NEEDLE, commit_fix(repo)),
    "tag to a blob": lambda repo: git(repo, "tag", "b", git(repo, "hash-object", "-w", "--stdin", data=FIX)),
    "remote branch": ref("refs/remotes/origin/main"),
    "pull reference": ref("refs/pull/7/head"),
    "original": ref("refs/original/refs/heads/main"),
    "stash": stash,
    "notes": lambda repo: git(repo, "notes", "add", "-m", NEEDLE, "HEAD"),
    "replace": lambda repo: git(repo, "replace", "HEAD", commit_fix(repo)),
    "reflog": reflog,
    "FETCH_HEAD": lambda repo: write(repo / ".git/FETCH_HEAD", commit_fix(repo)),
    "ORIG_HEAD": lambda repo: write(repo / ".git/ORIG_HEAD", commit_fix(repo)),
    "MERGE_MSG": git_file("MERGE_MSG"),
    "dangling loose": commit_fix,
    "dangling packed": packed_dangling,
    "kept pack": lambda repo: pack_of(repo, commit_fix(repo), ".keep"),
    "promisor pack": lambda repo: pack_of(repo, commit_fix(repo), ".promisor"),
    "alternates": alternates,
    "worktree": lambda repo: git(repo, "worktree", "add", "-q", "--detach", "../side", commit_fix(repo)),
    "bundle": lambda repo: git(repo, "bundle", "create", ".git/b.bundle", commit_fix(repo) and "--all"),
    "staged file": staged,
    "COMMIT_EDITMSG": git_file("COMMIT_EDITMSG"),
    "rr-cache": git_file("rr-cache/ab/postimage"),
    "rebase-apply": git_file("rebase-apply/0001"),
    "submodule folder": submodule,
    "nested repository": nested,
    "LFS cache": git_file("lfs/objects/ab/cd/x"),
    "hook text": git_file("hooks/pre-commit"),
    "remote URL": lambda repo: git(repo, "remote", "add", "origin", f"https://example.com/{NEEDLE}"),
    "grafts": lambda repo: write(
        repo / ".git/info/grafts", f"{git(repo, 'rev-parse', 'HEAD')} {commit_fix(repo)}\n"
    ),
    "lock file": git_file("HEAD.lock"),
    "half a pack": git_file("objects/pack/tmp_pack_1", NEEDLE),
    "info/exclude": git_file("info/exclude", NEEDLE),
}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    path = tmp_path / "repo"
    path.mkdir()
    git(path, "init", "-q", "-b", "main")
    for i in range(3):
        write(path / "answer.py", f"def answer():\n    return {i}\n")
        write(path / "pkg/data.txt", "x" * i)
        git(path, "add", "--all")
        git(path, "commit", "-qm", f"step {i}")
    return path


def leaks(tree: Path) -> list[str]:
    """Files in which the needle can be found: raw, in any object, or behind any zlib header."""
    found = []
    for path in tree.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            found += [str(path)] if NEEDLE.encode() in data or _in_zlib(data) else []
    for repository in find_git(tree):
        names = git(
            repository.parent, "cat-file", "--batch-all-objects", "--unordered", "--batch-check"
        ).split("\n")
        for line in names:
            name = line.split(" ")[0]
            kind = git(repository.parent, "cat-file", "-t", name)
            if kind != "tree" and NEEDLE in git(repository.parent, "cat-file", kind, name):
                found.append(f"object {name}")
    return found


def _in_zlib(data: bytes) -> bool:
    for start in range(len(data) - 2):
        if data[start] == 0x78:
            try:
                if NEEDLE.encode() in zlib.decompressobj().decompress(data[start:]):
                    return True
            except zlib.error:
                continue
    return False


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("history", ["past", "none"])
def test_no_route_survives(repo: Path, tmp_path: Path, route: str, history: str) -> None:
    base = git(repo, "rev-parse", "HEAD")
    ROUTES[route](repo)
    commit = rebuild_git(repo, base, tmp_path / "new", history=history)  # type: ignore[arg-type]
    assert leaks(tmp_path / "new") == []
    assert check_git(tmp_path / "new", commit) == []
    assert (tmp_path / "new/answer.py").read_text() == "def answer():\n    return 2\n"


@pytest.mark.parametrize("route", ROUTES)
def test_the_check_sees_the_route(repo: Path, tmp_path: Path, route: str) -> None:
    commit = rebuild_git(repo, "HEAD", tmp_path / "new")
    assert check_git(tmp_path / "new", commit) == []
    ROUTES[route](tmp_path / "new")
    assert check_git(tmp_path / "new", commit)


def test_planted_needles_are_found_before(repo: Path) -> None:
    for route in ("branch", "bundle", "hook text"):
        ROUTES[route](repo)
    assert leaks(repo)


def test_past_keeps_ancestors_and_none_does_not(repo: Path, tmp_path: Path) -> None:
    commit = rebuild_git(repo, "HEAD", tmp_path / "past")
    assert commit == git(repo, "rev-parse", "HEAD")
    assert git(tmp_path / "past", "rev-list", "--count", "HEAD") == "3"
    rebuild_git(repo, "HEAD", tmp_path / "none", history="none")
    assert git(tmp_path / "none", "rev-list", "--count", "--all") == "1"
    for name in ("past", "none"):
        assert git(tmp_path / name, "status", "--porcelain") == ""
        git(tmp_path / name, "fsck", "--strict")


def test_base_before_the_newest_commit(repo: Path, tmp_path: Path) -> None:
    commit = rebuild_git(repo, "HEAD~1", tmp_path / "new")
    assert (tmp_path / "new/answer.py").read_text() == "def answer():\n    return 1\n"
    assert check_git(tmp_path / "new", commit) == []


def test_equal_sources_give_equal_trees(repo: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        rebuild_git(repo, "HEAD", tmp_path / name)
    assert tree_digest(tmp_path / "a") == tree_digest(tmp_path / "b")


def test_files_of_a_filled_tree_stay_and_times_are_equal(repo: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    write(tree / "built.txt", "kept")
    write(tree / "vendor/.git/HEAD", "x")
    rebuild_git(repo, "HEAD", tree)
    assert (tree / "built.txt").read_text() == "kept"
    assert find_git(tree) == [tree / ".git"]
    assert {path.lstat().st_mtime for path in tree.rglob("*")} == {MTIME}


def test_a_missing_commit_is_named(repo: Path, tmp_path: Path) -> None:
    with pytest.raises(GitRebuildError, match="rev-parse"):
        rebuild_git(repo, "0" * 40, tmp_path / "new")


def test_a_shallow_source_is_refused(repo: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repo}", "shallow")
    with pytest.raises(GitRebuildError):
        rebuild_git(tmp_path / "shallow", "HEAD", tmp_path / "new")
    rebuild_git(tmp_path / "shallow", "HEAD", tmp_path / "single", history="none")


def test_init_git_is_deterministic_and_commits_ignored_files(tmp_path: Path) -> None:
    commits = set()
    for name in ("a", "b"):
        write(tmp_path / name / "x.py", "1\n")
        write(tmp_path / name / ".gitignore", "*.log\n")
        write(tmp_path / name / "kept.log", "2\n")
        commits.add(init_git(tmp_path / name, "start", MTIME))
        assert "kept.log" in git(tmp_path / name, "ls-files")
    assert len(commits) == 1
    assert check_git(tmp_path / "a", commits.pop()) == []
    assert tree_digest(tmp_path / "a") == tree_digest(tmp_path / "b")
    assert snapshot_tree(tmp_path / "a", tmp_path / "store") == snapshot_tree(
        tmp_path / "b", tmp_path / "store"
    )
