"""A08, A10, A11, A14: other repositories, work trees, bundles and stores of other version control in the
tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from mimo.hacks.git_view import GitError
from mimo.hacks.route import Found, Route
from mimo.hacks.scene import Entry, Scene
from mimo.hacks.scrub import Scrub

_STORES = {".hg": "A14", ".svn": "A14", ".bzr": "A14", "_darcs": "A14", "CVS": "A14", ".jj": "A14"}
_MAGIC = (b"# v2 git bundle", b"# v3 git bundle", b"PACK\0\0\0\x02", b"PACK\0\0\0\x03", b"HG10", b"HG20")
_MAIL = re.compile(rb"\AFrom [0-9a-f]{40} [A-Z][a-z]{2} [A-Z][a-z]{2} ")
_SHA = re.compile(rb"\b[0-9a-f]{40}\b")


def probe(scene: Scene) -> Iterator[Found]:
    """Folders by name, files by their first bytes, commit ids that the base's history does not know."""
    for entry in scene.entries:
        if entry.name == ".git":
            yield _repository(entry)
        elif entry.is_folder and entry.name in _STORES and scene.strangers_under(entry.path):
            yield Found(route=_STORES[entry.name], path=entry.path, evidence=entry.name.encode())
        elif entry.is_folder and _is_bare(entry):
            yield Found(route="A10", path=entry.path, evidence=_proof(entry))
    for entry in scene.strangers:
        if not entry.is_file:
            continue
        head = entry.head()
        if head.startswith(_MAGIC) or _MAIL.match(head):
            yield Found(route="A11", path=entry.path, evidence=scene.contents[entry.path])
    yield from _future_ids(scene)


def _repository(entry: Entry) -> Found:
    """A nested `.git`; for the work tree of another branch, the whole folder it lies in."""
    proof = _proof(entry)
    if entry.is_file and b"/worktrees/" in proof:
        return Found(route="A08", path=entry.path.rpartition("/")[0], evidence=proof)
    return Found(route="A10" if entry.is_folder else "A08", path=entry.path, evidence=proof)


def _is_bare(entry: Entry) -> bool:
    """A bare repository or an object store under another name."""
    has = {name for name in ("objects", "refs", "HEAD") if (entry.full / name).exists()}
    return len(has) == 3


def _proof(entry: Entry) -> bytes:
    if entry.is_file:
        return entry.read()
    head = entry.full / "HEAD"
    return head.read_bytes()[:1000] if head.is_file() and not head.is_symlink() else b"folder"


def _future_ids(scene: Scene) -> Iterator[Found]:
    for entry in scene.entries:
        if (
            entry.name != ".git-blame-ignore-revs"
            or not entry.is_file
            or scene.git is None
            or not scene.commit
        ):
            continue
        try:
            known = set(scene.git.reachable(scene.commit))
        except GitError:
            continue
        ids = {found.decode() for found in _SHA.findall(scene.contents[entry.path])} - known
        if ids and not scene.is_base(entry):
            yield Found(route="A14", path=entry.path, evidence="\n".join(sorted(ids)).encode())


ROUTES = (
    Route(
        ids=("A08", "A10", "A11", "A14"),
        title="another repository, bundle or store in the tree",
        probe=probe,
        scrub=Scrub.remove,
    ),
)
