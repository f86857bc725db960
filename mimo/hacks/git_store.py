"""A01-A07, A09, A12, A13, A15: the top `.git` must hold the base commit's objects and a short list of
files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from mimo.hacks.git_view import GitError
from mimo.hacks.route import Found, Route
from mimo.hacks.scene import Entry, Scene
from mimo.hacks.scrub import Scrub
from mimo.hacks.tables import words

_ALLOWED = words(
    """
    HEAD config index packed-refs refs/heads/* objects/info/packs objects/??/* objects/pack/pack-*.pack
    objects/pack/pack-*.idx objects/pack/pack-*.rev
    """
)
_TEMPLATES = ("description", "info/exclude", "hooks/*.sample")
"""What `git init` copies; let through where it holds nothing of the solution."""
_KINDS = (
    ("A15", ("shallow*", "info/grafts")),
    ("A02", ("refs/tags/*",)),
    ("A09", ("refs/stash", "logs/refs/stash", "sharedindex.*", "index.*")),
    ("A04", ("logs/*", "*_HEAD", "BISECT_*")),
    ("A06", ("objects/pack/*.keep", "objects/pack/*.promisor", "objects/pack/tmp_*", "objects/pack/*")),
    ("A06", ("objects/info/commit-graph*",)),
    ("A07", ("objects/info/*alternates",)),
    ("A08", ("worktrees/*", "gitdir", "commondir")),
    ("A10", ("modules/*",)),
    ("A03", ("refs/*",)),
    ("A11", ("*.bundle", "*.pack", "*.patch", "*.mbox")),
    ("A13", ("hooks/*", "info/*", "description", "branches/*")),
    ("A14", ("lfs/*", "annex/*", "svn/*")),
)  # fmt: skip
_KEYS = frozenset(
    words(
        """
    repositoryformatversion filemode bare logallrefupdates ignorecase symlinks precomposeunicode name
    email auto defaultbranch
    """
    )
)
_SECTIONS = frozenset({"core", "user", "gc", "init"})
_SECTION = re.compile(rb'^\s*\[\s*([\w.-]+)\s*("[^"]*")?\s*\]')


def probe(scene: Scene) -> Iterator[Found]:
    """Objects, refs, staged entries, configuration and files of the top `.git`."""
    if scene.git_problem is not None:
        yield Found(route="A01", path=".git", evidence=scene.git_problem.encode(), severity="critical")
    yield from _files(scene)
    yield from _refs(scene)
    yield from _config(scene)
    if scene.git is None or scene.commit is None:
        return
    try:
        yield from _objects(scene)
    except GitError as error:
        yield Found(route="A15", path=".git/objects", evidence=str(error).encode())
    try:
        yield from _staged(scene)
    except GitError as error:
        yield Found(route="A09", path=".git/index", evidence=str(error).encode())


def _objects(scene: Scene) -> Iterator[Found]:
    assert scene.git is not None
    assert scene.commit is not None
    extra = sorted(set(scene.git.objects) - set(scene.git.reachable(scene.commit)))
    commits = [oid for oid in extra if scene.git.objects[oid] in ("commit", "tag")]
    if commits:
        yield Found(
            route="A01", path=".git/objects", evidence="\n".join(commits).encode(), severity="critical"
        )
    if len(extra) > len(commits):
        rest = [oid for oid in extra if oid not in set(commits)]
        yield Found(route="A05", path=".git/objects", evidence="\n".join(rest).encode())


def _files(scene: Scene) -> Iterator[Found]:
    for entry in scene.git_entries:
        inner = entry.path.removeprefix(".git").lstrip("/")
        if entry.is_link or (not entry.is_file and not entry.is_folder):
            yield Found(route="A12", path=entry.path, evidence=b"not a plain file")
        if not inner or not entry.is_file or _let_through(scene, entry, inner):
            continue
        kind = next((k for k, globs in _KINDS if any(fnmatchcase(inner, glob) for glob in globs)), "A12")
        data = entry.read()
        severity = "critical" if any(scene.needles.tells(m) for _, _, m in scene.search(data)) else "leak"
        yield Found(route=kind, path=entry.path, evidence=data, severity=severity)  # type: ignore[arg-type]


def _let_through(scene: Scene, entry: Entry, inner: str) -> bool:
    if any(fnmatchcase(inner, glob) for glob in _ALLOWED):
        return True
    template = any(fnmatchcase(inner, glob) for glob in _TEMPLATES)
    return template and not scene.needles.match(entry.read()).any


def _refs(scene: Scene) -> Iterator[Found]:
    """Every ref must be the branch that HEAD names, at the base commit."""
    if scene.commit is None:
        return
    own, refs = "", dict(_loose_refs(scene))
    for entry in scene.git_entries:
        if entry.path == ".git/packed-refs" and entry.is_file:
            refs |= dict(_packed_refs(entry.read()))
        elif entry.path == ".git/HEAD" and entry.is_file:
            text = entry.read().decode("utf-8", "replace").strip()
            own = text.removeprefix("ref:").strip()
            if not text.startswith("ref:"):
                refs["HEAD"], own = text, "HEAD"
    for name, oid in sorted(refs.items()):
        if name != own or oid != scene.commit:
            kind = "A02" if name.startswith("refs/tags/") else "A01" if name == own else "A03"
            yield Found(route=kind, path=f".git/{name}", evidence=f"{name} {oid}".encode())


def _loose_refs(scene: Scene) -> Iterator[tuple[str, str]]:
    for entry in scene.git_entries:
        if entry.path.startswith(".git/refs/heads/") and entry.is_file:
            yield entry.path.removeprefix(".git/"), entry.read().decode("utf-8", "replace").strip()


def _packed_refs(data: bytes) -> Iterator[tuple[str, str]]:
    for line in data.decode("utf-8", "replace").splitlines():
        if line[:1] not in ("#", "^", ""):
            oid, _, name = line.partition(" ")
            yield name, oid


def _config(scene: Scene) -> Iterator[Found]:
    for entry in scene.git_entries:
        if entry.path != ".git/config" or not entry.is_file:
            continue
        section = b""
        for line in entry.read().splitlines():
            head = _SECTION.match(line)
            if head:
                section = head.group(1).lower() if head.group(2) is None else b"?"
                line = line[head.end() :]
            key = line.split(b"=")[0].strip().lower()
            if not key or key[:1] in (b"#", b";"):
                continue
            if section.decode("latin-1") not in _SECTIONS or key.decode("latin-1") not in _KEYS:
                yield Found(route="A13", path=".git/config", evidence=section + b" " + line)


def _staged(scene: Scene) -> Iterator[Found]:
    assert scene.git is not None
    index = scene.root / ".git" / "index"
    if not index.is_file() or index.is_symlink():
        return
    for path, entry in sorted(scene.git.staged(index).items()):
        known = (scene.base or {}).get(path)
        if known is None or known.oid != entry.oid:
            yield Found(route="A09", path=f".git/index!{path}", evidence=entry.oid.encode())


ROUTES = (
    Route(
        ids=("A01", "A02", "A03", "A04", "A05", "A06", "A07", "A09", "A12", "A13", "A15"),
        title="the solution in the version control's own store",
        probe=probe,
        scrub=Scrub.rebuild_git,
    ),
)
