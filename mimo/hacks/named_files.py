"""Tables of names: what a clean tree does not hold unless the base commit does, by route."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from mimo.hacks.route import Found, Severity
from mimo.hacks.scene import Entry, Scene

_MOST_BYTES = 64_000_000


def by_name(scene: Scene, route: str, folders: tuple[str, ...], files: tuple[str, ...]) -> Iterator[Found]:
    """Strangers below a folder or with a name of the tables; `critical` where a needle is found inside.

    A folder is reported once, by its path, when nothing in it belongs to the base.
    """
    told: set[str] = set()
    for entry in scene.strangers:
        folder = _folder_of(entry.path, folders)
        if folder is None and not _named(entry, files):
            continue
        path = folder if folder is not None and folder not in scene.base_folders else entry.path
        if path in told:
            continue
        told.add(path)
        inside = scene.strangers_under(path) if path == folder else [entry]
        yield Found(route=route, path=path, evidence=_proof(scene, inside), severity=_severity(scene, inside))


def _folder_of(path: str, folders: tuple[str, ...]) -> str | None:
    """The outermost folder on the way to `path` that the table names (a name, or a path with slashes)."""
    parts = path.split("/")
    for depth in range(1, len(parts)):
        at = "/".join(parts[:depth])
        if any(_is_folder(at, parts[depth - 1], glob) for glob in folders):
            return at
    return None


def _is_folder(path: str, name: str, glob: str) -> bool:
    if "/" not in glob:
        return fnmatchcase(name, glob)
    return fnmatchcase(path, glob) or fnmatchcase(path, f"*/{glob}")


def _named(entry: Entry, files: tuple[str, ...]) -> bool:
    name = entry.name.lower()
    return any(fnmatchcase(name, glob) for glob in files)


def _proof(scene: Scene, entries: list[Entry]) -> bytes:
    names = b"\n".join(entry.path.encode("utf-8", "replace") for entry in entries)
    return names + (scene.contents.get(entries[0].path, b"") if len(entries) == 1 else b"")


def _severity(scene: Scene, entries: list[Entry]) -> Severity:
    """`critical` where a needle is found; of huge folders only the first part is searched."""
    left = _MOST_BYTES
    for entry in entries:
        left -= entry.facts.st_size
        data = scene.contents.get(entry.path, b"") if left > 0 else b""
        if any(scene.needles.tells(match) for _, _, match in scene.search(data, binary=True)):
            return "critical"
    return "leak"
