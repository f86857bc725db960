"""A16, A17: the history before the base already holds the solution (a reverted commit, a merged back-
port).
"""

from __future__ import annotations

from collections.abc import Iterator

from mimo.hacks.git_view import GitError
from mimo.hacks.route import Found, Route
from mimo.hacks.scene import Scene
from mimo.hacks.scrub import Scrub


def probe(scene: Scene) -> Iterator[Found]:
    """Old blobs and commit messages that hold most of the solution."""
    if scene.git is None or scene.commit is None:
        return
    try:
        reachable = scene.git.reachable(scene.commit)
    except GitError:
        return  # A15 reports it
    current = {entry.oid for entry in (scene.base or {}).values()}
    kinds = scene.git.objects
    old = [oid for oid in reachable if oid not in current and kinds.get(oid) in ("blob", "commit", "tag")]
    if len(old) <= 1 and not any(kinds.get(oid) == "blob" for oid in old):
        return
    for oid, data in scene.git.contents(sorted(old)):
        if scene.needles.fills(scene.needles.match(data)):
            yield Found(route="A16", path=f".git!{reachable[oid] or kinds[oid]}", evidence=oid.encode())


ROUTES = (
    Route(
        ids=("A16", "A17"),
        title="the solution in the history before the base",
        probe=probe,
        scrub=Scrub.squash_git,
    ),
)
