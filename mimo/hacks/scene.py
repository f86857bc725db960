"""What a probe sees: the work tree's files, its base commit, the needles, and what a box told about
itself.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from mimo.hacks.git_view import GitError, GitView, TreeEntry
from mimo.hacks.layers import Unread, layers
from mimo.hacks.needles import Match, Needles, Secrets, build_needles
from mimo.hacks.tables import words
from mimo.types import Json

MAX_FILE_BYTES = 16_000_000
"""Larger files are searched in their first bytes only."""
_MOST_FILES = 500_000
_KEPT_BYTES, _KEPT_FILES = 200_000, 2_000
SOURCES = words(
    """
    .py .js .ts .c .h .cc .cpp .rs .go .java .rb .md .rst .toml .cfg
    """
)
"""Endings of source text."""


_NONE = Needles()


@dataclass(frozen=True, slots=True)
class Entry:
    """One path of the tree (folders too); `git` says that it lies in the top `.git`."""

    path: str
    full: Path
    facts: os.stat_result

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def is_file(self) -> bool:
        """A regular file."""
        return stat.S_ISREG(self.facts.st_mode)

    @property
    def is_link(self) -> bool:
        """A symbolic link."""
        return stat.S_ISLNK(self.facts.st_mode)

    @property
    def is_folder(self) -> bool:
        """A folder."""
        return stat.S_ISDIR(self.facts.st_mode)

    def head(self) -> bytes:
        """The first bytes, enough to tell what kind of file it is."""
        with open(self.full, "rb") as file:
            return file.read(128)

    def read(self) -> bytes:
        """The first `MAX_FILE_BYTES` bytes."""
        with open(self.full, "rb") as file:
            return file.read(MAX_FILE_BYTES)


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """What the box of the task may hold: its folder, its variables, and strings that must not show."""

    workdir: str = "/work"
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(kw_only=True)
class Scene:
    """One environment under inspection. `git` and `base` are None without a readable base commit."""

    root: Path
    needles: Needles
    secrets: Secrets
    git: GitView | None = None
    commit: str | None = None
    git_problem: str | None = None
    box: Mapping[str, Json] | None = None
    image: Path | None = None
    expected: Expected = field(default_factory=Expected)
    named: set[str] = field(default_factory=set)
    """Paths that probes so far reported by what they are; a search for needles there adds nothing."""
    strict: bool = True
    """Snapshots: times, owners and modes must be uniform. False for a checkout somebody works in."""

    @cached_property
    def entries(self) -> list[Entry]:
        """Everything below the root but the top `.git`, sorted by path."""
        return list(_walk(self.root))

    @cached_property
    def git_entries(self) -> list[Entry]:
        """The top `.git` and everything in it, sorted by path."""
        return [entry for entry in _walk(self.root / ".git", ".git") if entry.path]

    @cached_property
    def base(self) -> dict[str, TreeEntry] | None:
        """The base commit's files, None if there is no base to compare with."""
        return self.git.tree(self.commit) if self.git is not None and self.commit else None

    @cached_property
    def base_folders(self) -> frozenset[str]:
        """Every folder that holds a file of the base."""
        paths = [path.split("/") for path in self.base or {}]
        return frozenset("/".join(parts[:depth]) for parts in paths for depth in range(1, len(parts)))

    @cached_property
    def contents(self) -> Mapping[str, bytes]:
        """Path to content of every regular file, read when asked for (small files are kept)."""
        return _Contents({entry.path: entry for entry in self.entries if entry.is_file})

    def is_base(self, entry: Entry) -> bool:
        """Whether the path is in the base commit, as it is here."""
        known = self.base.get(entry.path) if self.base else None
        if known is None:
            return False
        if entry.is_link:
            data = os.fsencode(entry.full.readlink())
        elif entry.is_file and entry.facts.st_size <= MAX_FILE_BYTES:
            data = self.contents[entry.path]
        else:
            return entry.is_file
        return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest() == known.oid

    @cached_property
    def strangers(self) -> list[Entry]:
        """Files and links that are not in the base as they are here (all of them without a base)."""
        return [entry for entry in self.entries if not entry.is_folder and not self.is_base(entry)]

    def is_named(self, path: str) -> bool:
        """Whether the path, or a folder it lies in, was reported already."""
        parts = path.split("/")
        return any("/".join(parts[:depth]) in self.named for depth in range(1, len(parts) + 1))

    def strangers_under(self, folder: str) -> list[Entry]:
        """The strangers below a folder."""
        return [entry for entry in self.strangers if entry.path.startswith(f"{folder}/")]

    def search(
        self, data: bytes, *, binary: bool = False, unread: list[Unread] | None = None
    ) -> Iterator[tuple[str, bytes, Match]]:
        """Every layer of `data` that holds a needle: its suffix, its bytes, the match.

        `unread`, once all is searched, has what could not be.
        """
        if self.needles == _NONE:
            return
        for suffix, piece in layers(data, unread):
            match = self.needles.match(piece)
            if binary and not match.any:
                match = self.needles.match_strings(piece)
            if match.any:
                yield suffix, piece, match


class _Contents(Mapping[str, bytes]):
    def __init__(self, files: Mapping[str, Entry]) -> None:
        self._files = files
        self._kept: dict[str, bytes] = {}

    def __getitem__(self, path: str) -> bytes:
        if path in self._kept:
            return self._kept[path]
        data = self._files[path].read()
        if len(data) <= _KEPT_BYTES and len(self._kept) < _KEPT_FILES:
            self._kept[path] = data
        return data

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def _walk(root: Path, prefix: str = "") -> Iterator[Entry]:
    """Entries below `root` (and `root` itself under a prefix), sorted, links not followed."""
    found: list[Entry] = []
    if prefix and os.path.lexists(root):
        found.append(Entry(prefix, root, root.lstat()))
    queue = [(root, prefix)] if root.is_dir() and not root.is_symlink() else []
    while queue:
        folder, at = queue.pop()
        with os.scandir(folder) as rows:
            for row in rows:
                path = f"{at}/{row.name}" if at else row.name
                if not prefix and path == ".git":
                    continue
                entry = Entry(path, Path(row.path), row.stat(follow_symlinks=False))
                found.append(entry)
                if entry.is_folder:
                    queue.append((entry.full, path))
        if len(found) > _MOST_FILES:
            raise GitError(f"more than {_MOST_FILES} files")
    return iter(sorted(found, key=lambda entry: entry.path))


@contextmanager
def open_scene(
    root: Path,
    commit: str | None,
    secrets: Secrets,
    *,
    needles: Needles | None = None,
    expected: Expected | None = None,
    strict: bool = True,
) -> Iterator[Scene]:
    """The scene of a work tree (static part; set `box` and `image` for the rest).

    Args:
        commit: the base; None compares with nothing, so that every file counts as a stranger.
        needles: made before for the same task and base; None builds them.
    """
    with ExitStack() as stack:
        git, base, problem = _open_git(root, commit, stack)
        if needles is None:
            needles = build_needles(secrets, _base_files(root, git, base))
        yield Scene(
            root=root,
            needles=needles,
            secrets=secrets,
            git=git,
            commit=base,
            git_problem=problem,
            expected=expected or Expected(),
            strict=strict,
        )


def _open_git(
    root: Path, commit: str | None, stack: ExitStack
) -> tuple[GitView | None, str | None, str | None]:
    if commit is None:
        return None, None, None
    if not (root / ".git").is_dir() or (root / ".git").is_symlink():
        return None, None, "no .git folder, but the task names a base commit"
    try:
        view = stack.enter_context(GitView(root / ".git"))
        return view, view.commit(commit), None
    except GitError as error:
        return None, None, f"the base commit cannot be read: {error}"


def _base_files(root: Path, git: GitView | None, commit: str | None) -> Iterator[bytes]:
    """The base commit's files; without one, the source files that are here (what they hold is no needle
    then).
    """
    if git is not None and commit is not None:
        blobs = [entry.oid for entry in git.tree(commit).values() if entry.mode != "160000"]
        yield from (data for _, data in git.contents(blobs))
        return
    for entry in _walk(root):
        if entry.is_file and entry.name.endswith(SOURCES):
            yield entry.read()
