"""C08, C09, C10, C14: times, owners, modes and links that point at what was touched."""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Iterator

from mimo.hacks.route import Found, Route
from mimo.hacks.scene import Entry, Scene
from mimo.hacks.scrub import Scrub

_BORN_APART_S = 1.0


def probe(scene: Scene) -> Iterator[Found]:
    """Snapshots have one time, one owner, two modes; links stay inside."""
    yield from _links(scene)
    if not scene.strict:
        return
    everything = [*scene.entries, *scene.git_entries]
    yield from _odd(everything, "C08", lambda entry: int(entry.facts.st_mtime))
    yield from _odd(everything, "C10", lambda entry: (entry.facts.st_uid, entry.facts.st_gid))
    for entry in everything:
        mode = stat.S_IMODE(entry.facts.st_mode)
        if not entry.is_link and mode not in ((0o755,) if entry.is_folder else (0o644, 0o755)):
            yield Found(route="C10", path=entry.path, evidence=oct(mode).encode())
    yield from _born_last(scene)


def _odd(entries: list[Entry], route: str, fact: object) -> Iterator[Found]:
    """Entries whose fact is not the one of most."""
    values = [fact(entry) for entry in entries]  # type: ignore[operator]
    if len(set(values)) <= 1:
        return
    usual = max(set(values), key=values.count)
    for entry, value in zip(entries, values, strict=True):
        if value != usual:
            yield Found(route=route, path=entry.path, evidence=repr(value).encode())


def _born_last(scene: Scene) -> Iterator[Found]:
    """Exactly the files that the reference touches were written after all others, with a gap."""
    files = [entry for entry in scene.entries if entry.is_file]
    touched = [entry for entry in files if entry.path in scene.secrets.reference]
    others = [entry.facts.st_ctime for entry in files if entry.path not in scene.secrets.reference]
    if not touched or len(others) < 2:
        return
    first = min(entry.facts.st_ctime for entry in touched)
    if first - max(others) > _BORN_APART_S:
        names = " ".join(entry.path for entry in touched)
        yield Found(route="C09", path=touched[0].path, evidence=names.encode("utf-8", "replace"))


def _links(scene: Scene) -> Iterator[Found]:
    for entry in scene.entries:
        if entry.is_link:
            target = str(entry.full.readlink())
            where = posixpath.normpath(posixpath.join(posixpath.dirname(entry.path), target))
            if target.startswith("/") or where.startswith("..") or where.split("/")[0] == ".git":
                yield Found(route="C14", path=entry.path, evidence=os.fsencode(target))
        elif not entry.is_file and not entry.is_folder:
            yield Found(route="C14", path=entry.path, evidence=b"neither file nor folder")


def scrub(work: Scrub, found: Found) -> str:
    """Links go; times, owners and modes come right with the new snapshot."""
    return work.remove(found) if found.route == "C14" else work.normalise(found)


ROUTES = (
    Route(
        ids=("C08", "C09", "C10", "C14"),
        title="facts of files that tell what was touched",
        probe=probe,
        scrub=scrub,
    ),
)
