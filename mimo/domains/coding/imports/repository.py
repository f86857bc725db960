"""A trusted source repository at one commit, with patches laid on it; nothing in it is ever written.

Git runs on it with an environment of its own. Objects that a patch makes go to a folder beside.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from mimo.domains.coding.importer import MAX_TREE_BYTES
from mimo.domains.coding.imports.importing import CannotImport
from sandbox.git_rebuild import pack_history
from sandbox.git_run import GitRebuildError, run_git
from sandbox.scratch import temporary_parent

_LINK, _MODULE = "120000", "160000"


@dataclass(frozen=True, slots=True)
class Tree:
    """The regular files of a commit (with patches) by path; left out: links, number of submodules."""

    files: dict[str, bytes]
    links: frozenset[str]
    modules: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Repositories:
    """Where repositories are: a folder of clones, or the beginning of a URL; clones are kept in `cache`."""

    place: str
    cache: Path

    def find(self, name: str) -> Path:
        """The repository `owner/name`: a work tree or a bare one.

        Raises:
            CannotImport: it is not there, or cannot be cloned.
        """
        if "://" in self.place:
            return self._cloned(f"{self.place.rstrip('/')}/{name}")
        root = Path(self.place)
        owner, _, short = name.rpartition("/")
        for known in (name, f"{owner}__{short}", short):
            for path in (root / known, root / f"{known}.git"):
                if _is_repository(path):
                    return path
        raise CannotImport(f"no clone of {name} in {root} (looked for {name}, {owner}__{short}, {short})")

    def _cloned(self, url: str) -> Path:
        final = self.cache / f"{hashlib.sha256(url.encode()).hexdigest()[:16]}.git"
        if final.is_dir():
            return final
        from git import GitCommandError, Repo  # here: slow to import

        self.cache.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(dir=self.cache, prefix=".clone-"))
        try:
            Repo.clone_from(url, work / "repo.git", bare=True)
            (work / "repo.git").rename(final)
        except GitCommandError as error:
            said = str(error.stderr).strip().splitlines()[-1:]
            raise CannotImport(f"{url} cannot be cloned: {' '.join(said)}") from error
        finally:
            shutil.rmtree(work, ignore_errors=True)
        return final


def _is_repository(path: Path) -> bool:
    return (path / ".git").exists() or ((path / "HEAD").is_file() and (path / "objects").is_dir())


class Base:
    """One commit of a repository; a context manager."""

    def __init__(self, repository: Path, commit: str) -> None:
        self._repository = repository
        self._at = ("-C", str(repository))
        try:
            found = run_git(*self._at, "rev-parse", "--verify", "--end-of-options", f"{commit}^{{commit}}")
            objects = run_git(*self._at, "rev-parse", "--git-path", "objects").decode().strip()
        except GitRebuildError as error:
            raise CannotImport(f"base commit {commit} is not in {repository}") from error
        self.commit = found.decode().strip()
        self._folder = tempfile.TemporaryDirectory(prefix="mimo-import-", dir=temporary_parent())
        place = Path(self._folder.name)
        (place / "objects").mkdir()
        self._env = {
            "GIT_OBJECT_DIRECTORY": str(place / "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str((repository / objects).resolve()),
            "GIT_INDEX_FILE": str(place / "index"),
        }

    def __enter__(self) -> Base:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def patched(self, patches: Iterable[tuple[str, str]]) -> str:
        """The tree of the commit with the patches (what each is called, its text) laid on one after another.

        Raises:
            CannotImport: one does not apply.
        """
        self._git("read-tree", self.commit)
        for called, text in patches:
            if not text.strip():
                continue
            whole = text if text.endswith("\n") else text + "\n"
            try:
                self._git("apply", "--cached", "--whitespace=nowarn", "-", data=whole.encode())
            except GitRebuildError as error:
                raise CannotImport(
                    f"{called} does not apply to {self.commit[:12]}: {_last(error)}"
                ) from error
        return self._git("write-tree").decode().strip()

    def tree(self, tree: str) -> Tree:
        """The files of a tree; CannotImport when they are too large."""
        rows = [
            _entry(row) for row in self._git("ls-tree", "-r", "-z", "--full-tree", tree).split(b"\0") if row
        ]
        wanted = [(path, oid) for mode, oid, path in rows if mode not in (_LINK, _MODULE)]
        blobs = self._blobs([oid for _, oid in wanted])
        links = frozenset(path for mode, _, path in rows if mode == _LINK)
        files = {path: data for (path, _), data in zip(wanted, blobs, strict=True)}
        return Tree(files, links, len(rows) - len(wanted) - len(links))

    def changed(self, tree: str) -> list[str]:
        """The paths in which a tree differs from the commit's, sorted."""
        said = self._git(
            "diff-tree", "-r", "-z", "--no-renames", "--name-only", f"{self.commit}^{{tree}}", tree
        )
        return sorted(path.decode("utf-8", "surrogateescape") for path in said.split(b"\0") if path)

    def history(self) -> bytes:
        """A pack of all that the commit reaches; CannotImport where objects are missing (a shallow clone)."""
        try:
            return pack_history(self._repository, self.commit)
        except GitRebuildError as error:
            raise CannotImport(f"{self._repository} is no whole clone: {_last(error)}") from error

    def _blobs(self, oids: list[str]) -> list[bytes]:
        asked = "".join(f"{oid}\n" for oid in oids).encode()
        sizes = self._git("cat-file", "--batch-check=%(objectsize)", data=asked).split()
        total = sum(map(int, sizes))
        if total > MAX_TREE_BYTES:
            raise CannotImport(
                f"the work tree is {total // 1_000_000} MB; a task's is at most {MAX_TREE_BYTES // 1_000_000}"
            )
        said, found, at = self._git("cat-file", "--batch=%(objectsize)", data=asked), [], 0
        for size in map(int, sizes):
            start = said.index(b"\n", at) + 1
            found.append(said[start : start + size])
            at = start + size + 1
        return found

    def _git(self, *arguments: str, data: bytes | None = None) -> bytes:
        return run_git(*self._at, *arguments, data=data, **self._env)


def _entry(row: bytes) -> tuple[str, str, str]:
    """Mode, object id, path of a line of ls-tree."""
    facts, _, raw = row.partition(b"\t")
    mode, _, oid = facts.decode().split()
    path = raw.decode("utf-8", "surrogateescape")
    pure = PurePosixPath(path)
    if pure.is_absolute() or {"..", ".git"} & set(pure.parts):
        raise CannotImport(f"the repository holds a path that leaves it: {path!r}")
    return mode, oid, path


def _last(error: GitRebuildError) -> str:
    return " ".join(str(error).splitlines()[-2:])[-300:]
