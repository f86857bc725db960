"""Whether a `.git` holds exactly what its base commit reaches; reads it without its configuration."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from sandbox.git_run import GitRebuildError, find_git, run_git
from sandbox.scratch import temporary_parent

_ALLOWED = re.compile(
    r"HEAD|config|index|packed-refs|refs/heads/main|objects/pack/pack-[0-9a-f]{40,64}\.(pack|idx)"
)
_ALLOWED_CONFIG = {
    "core.repositoryformatversion",
    "core.filemode",
    "core.bare",
    "core.logallrefupdates",
    "gc.auto",
}


def check_git(tree: Path, base: str) -> list[str]:
    """What is wrong with the repository in `tree`, one line each; empty if only what `base` reaches can be
    found.

    Args:
        base: the full id of the commit the tree stands on (what `rebuild_git` returned).
    """
    git_dir = tree / ".git"
    problems = [f"another repository: {path.relative_to(tree)}" for path in find_git(tree) if path != git_dir]
    if not git_dir.is_dir() or git_dir.is_symlink():
        return [*problems, "no .git folder"]
    files = [path for path in sorted(git_dir.rglob("*")) if path.is_symlink() or not path.is_dir()]
    for path in files:
        name = str(path.relative_to(git_dir))
        if path.is_symlink() or not _ALLOWED.fullmatch(name):
            problems.append(f"unexpected file: .git/{name}")
    problems += _check_references(git_dir, base)
    with tempfile.TemporaryDirectory(prefix="mimo-git-", dir=temporary_parent()) as folder:
        reader = _reader(Path(folder), git_dir)
        try:
            return [*problems, *_check_objects(reader, base), *_check_index(reader, git_dir, base)]
        except GitRebuildError as error:
            return [*problems, f"cannot be read: {error}"]


def _reader(folder: Path, git_dir: Path) -> str:
    """An empty repository that borrows the objects: nothing of the other one's configuration is read."""
    (folder / "objects/info").mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "HEAD").write_text("ref: refs/heads/none\n")
    (folder / "objects/info/alternates").write_text(f"{(git_dir / 'objects').resolve()}\n")
    return f"--git-dir={folder}"


def _check_references(git_dir: Path, base: str) -> list[str]:
    problems = []
    head = _text(git_dir / "HEAD").strip()
    if head not in ("ref: refs/heads/main", base):
        problems.append("HEAD names something else than refs/heads/main")
    references = {"refs/heads/main": _text(git_dir / "refs/heads/main").strip()}
    for line in _text(git_dir / "packed-refs").splitlines():
        if not line.startswith(("#", "^")):
            commit, _, name = line.partition(" ")
            references[name] = references.get(name) or commit
    for name, commit in references.items():
        if name != "refs/heads/main" or commit != base:
            problems.append(f"reference {name} is not the base commit")
    if not _text(git_dir / "config"):
        return [*problems, "no configuration"]
    keys = run_git("config", "--file", str(git_dir / "config"), "--no-includes", "--name-only", "--list")
    unknown = set(keys.decode(errors="replace").split("\n")) - _ALLOWED_CONFIG - {""}
    return problems + [f"configuration: {key}" for key in sorted(unknown)]


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.is_file() and not path.is_symlink() else ""


def _check_objects(reader: str, base: str) -> list[str]:
    every = run_git(reader, "cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objectname)")
    reached = run_git(reader, "rev-list", "--objects", "--no-object-names", base)
    extra = set(every.split()) - set(reached.split())
    missing = set(reached.split()) - set(every.split())
    problems = [f"{len(extra)} objects that the base commit does not reach"] if extra else []
    return problems + ([f"{len(missing)} objects are missing"] if missing else [])


def _check_index(reader: str, git_dir: Path, base: str) -> list[str]:
    index = git_dir / "index"
    if not index.is_file() or index.is_symlink():
        return []
    staged = run_git(reader, "ls-files", "--stage", "-z", GIT_INDEX_FILE=str(index.resolve()))
    entries = {_entry(line) for line in staged.split(b"\0") if line}
    listed = run_git(reader, "ls-tree", "-r", "-z", "--full-tree", base)
    base_entries = {_base_entry(line) for line in listed.split(b"\0") if line}
    return ["the index differs from the base commit"] if entries != base_entries else []


def _entry(line: bytes) -> tuple[bytes, bytes, bytes, bytes]:
    facts, _, path = line.partition(b"\t")
    mode, name, stage = facts.split(b" ")
    return mode, name, stage, path


def _base_entry(line: bytes) -> tuple[bytes, bytes, bytes, bytes]:
    facts, _, path = line.partition(b"\t")
    mode, _kind, name = facts.split(b" ")
    return mode, name, b"0", path
