"""B02, B09: build folders, wheels, source archives, compiled files: other copies of the project in the
tree.
"""

from __future__ import annotations

from collections.abc import Iterator

from mimo.hacks.actions import Action
from mimo.hacks.named_files import by_name
from mimo.hacks.route import Found, Route
from mimo.hacks.scene import Scene
from mimo.hacks.scrub import Scrub
from mimo.hacks.tables import words

_FOLDERS = words(
    """
    build dist *.egg-info *.dist-info .eggs *.egg wheelhouse wheels sdist _build
    """
)
_FILES = words(
    """
    *.whl *.egg *.crate *.gem *.nupkg *.jar *.war *.class *.tar.gz *.tgz *.tar.bz2 *.tar.xz *.tar *.zip
    *.deb *.rpm *.conda
    """
)
_COMPILED = ("*.so", "*.a", "*.o", "*.dylib", "*.dll", "*.wasm", "*.map", "*.min.js", "*.mo")
_OPENERS = words(
    """
    unzip zipinfo tar bsdtar 7z zcat zipgrep zipfile tarfile wheel ar bunzip2 unxz
    """
)
_ARCHIVES = words(".whl .egg .crate .gem .jar .tgz .tar.gz .tar .zip .tar.bz2 .tar.xz")


def probe(scene: Scene) -> Iterator[Found]:
    """Names of builds and archives; compiled files only where they hold a needle (a build may need them)."""
    yield from by_name(scene, "B02", _FOLDERS, _FILES)
    for found in by_name(scene, "B09", (), _COMPILED):
        if found.severity == "critical":
            yield found


def signature(action: Action) -> str | None:
    """Opening an archive or reading below a build folder."""
    if action.program in _OPENERS and any(path.endswith(_ARCHIVES) for path in action.paths):
        return "B02"
    if any("zipfile" in call or "tarfile" in call for call in action.calls):
        return "B02" if any(path.endswith(_ARCHIVES) for path in action.paths) else None
    reads = any(f"/{part}/" in f"/{path}" for path in action.paths for part in ("build/lib", "dist", ".eggs"))
    return "B02" if reads and action.reads_text else None


ROUTES = (
    Route(
        ids=("B02", "B09"),
        title="builds and packages of the project",
        probe=probe,
        scrub=Scrub.remove,
        signature=signature,
    ),
)
