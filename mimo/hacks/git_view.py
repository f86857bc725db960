"""Reads the objects of a repository without using its configuration: an empty repository of our own that
borrows
its object store. No hook, filter, alias, replacement, graft or remote of the inspected repository is
ever read by git.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

from sandbox.errors import SandboxError
from sandbox.git_rebuild import commit_tree, rebuild_git
from sandbox.scratch import temporary_parent

_ENV = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/nonexistent",
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
}
_TIMEOUT_S = 300.0


class GitError(Exception):
    """The repository cannot be read; the message is git's, cut. A probe counts it as a leak."""


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A path of a commit's tree: mode as in git (100644, 100755, 120000, 160000) and object id."""

    mode: str
    oid: str


@dataclass
class GitView:
    """The objects of `git_dir`; use in a `with` statement."""

    git_dir: Path
    _own: Path = field(init=False)

    def __enter__(self) -> Self:
        self._own = Path(tempfile.mkdtemp(prefix="mimo-git-", dir=temporary_parent()))
        for name in ("objects/info", "refs"):
            (self._own / name).mkdir(parents=True)
        (self._own / "HEAD").write_text("ref: refs/heads/none\n")
        (self._own / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = true\n")
        store = os.fsencode(self.git_dir.resolve() / "objects")
        (self._own / "objects/info/alternates").write_bytes(store + b"\n")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._own, ignore_errors=True)

    def run(self, *arguments: str, given: bytes = b"", index: Path | None = None) -> bytes:
        """The output of a plumbing command; GitError when it fails."""
        env = dict(_ENV) if index is None else {**_ENV, "GIT_INDEX_FILE": str(index)}
        command = ["git", f"--git-dir={self._own}", *arguments]
        try:
            done = subprocess.run(
                command, input=given, env=env, cwd="/", capture_output=True, check=False, timeout=_TIMEOUT_S
            )
        except subprocess.TimeoutExpired as error:
            raise GitError(f"git {arguments[0]} took longer than {_TIMEOUT_S:.0f} s") from error
        if done.returncode != 0:
            raise GitError(f"git {arguments[0]}: {done.stderr.decode('utf-8', 'replace').strip()[:200]}")
        return done.stdout

    @cached_property
    def objects(self) -> dict[str, str]:
        """Every object in the store, loose, packed or borrowed: id to type."""
        lines = self.run(
            "cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objectname) %(objecttype)"
        )
        return dict(line.split(" ", 1) for line in lines.decode().splitlines())

    def commit(self, name: str) -> str:
        """The full id of a commit given by (part of) its id; GitError when it is not there."""
        return self.run("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}").decode().strip()

    def reachable(self, commit: str) -> dict[str, str]:
        """Objects reachable from the commit: id to path ('' for commits and top trees)."""
        lines = self.run("rev-list", "--objects", commit).decode("utf-8", "surrogateescape").splitlines()
        found = {}
        for line in lines:
            oid, _, path = line.partition(" ")
            found[oid] = path
        return found

    def tree(self, commit: str) -> dict[str, TreeEntry]:
        """The files of a commit: path to entry."""
        found = {}
        for row in self.run("ls-tree", "-r", "-z", commit).split(b"\0")[:-1]:
            facts, _, path = row.partition(b"\t")
            mode, _, oid = facts.decode().split(" ")
            found[os.fsdecode(path)] = TreeEntry(mode, oid)
        return found

    def staged(self, index: Path) -> dict[str, TreeEntry]:
        """What an index file holds: path (with `:stage` unless 0) to entry."""
        found = {}
        for row in self.run("ls-files", "-s", "-z", index=index).split(b"\0")[:-1]:
            facts, _, path = row.partition(b"\t")
            mode, oid, stage = facts.decode().split(" ")
            name = os.fsdecode(path)
            found[name if stage == "0" else f"{name}:{stage}"] = TreeEntry(mode, oid)
        return found

    def rebuild(self, commit: str, tree: Path, *, squash: bool, without: Iterable[str] = ()) -> str:
        """Replace every `.git` of a work tree by a new one made from `commit`; the commit it stands on.

        `without` names paths of the commit that the new base does not have: it is one commit then.
        """
        try:
            start = self._less(commit, without) if without else commit
            return rebuild_git(self._own, start, tree, "none" if squash else "past")
        except SandboxError as error:
            raise GitError(str(error)) from error

    def _less(self, commit: str, paths: Iterable[str]) -> str:
        """A parentless commit of the same tree less these paths, in our own store."""
        index = self._own / "index-less"
        rows = [b"0 " + b"0" * 40 + b"\t" + os.fsencode(path) + b"\0" for path in sorted(paths)]
        self.run("read-tree", commit, index=index)
        self.run("update-index", "-z", "--index-info", given=b"".join(rows), index=index)
        content = self.run("write-tree", index=index).decode().strip()
        date = self.run("show", "-s", "--format=%ct", commit).decode().strip()
        return commit_tree(self._own, content, "base", int(date))

    def contents(self, oids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Id and content of each object, in the order given."""
        wanted = list(oids)
        if not wanted:
            return
        data = self.run("cat-file", "--batch", given="\n".join(wanted).encode() + b"\n")
        at = 0
        for _ in wanted:
            end = data.index(b"\n", at)
            oid, _, size = data[at:end].decode().split(" ")
            yield oid, data[end + 1 : end + 1 + int(size)]
            at = end + 2 + int(size)
