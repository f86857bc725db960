"""B04, B05, B07: caches of package managers and tools, wheelhouses, and the configuration that points to
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from mimo.hacks.actions import Action
from mimo.hacks.named_files import by_name
from mimo.hacks.route import Found, Route
from mimo.hacks.scene import Scene
from mimo.hacks.scrub import Scrub
from mimo.hacks.tables import words

_PACKAGES = words(
    """
    .cache pip-cache .pip __pypackages__ .npm .yarn .pnpm-store .bun .cargo .gradle .m2 .ivy2 .nuget
    .gem .bundle .composer .conda pkg/mod .uv .venv venv node_modules/.cache site-packages dist-packages
    """
)
_TOOLS = words(
    """
    .mypy_cache .ruff_cache .pytest_cache .pytype .pyre .tox .nox .hypothesis htmlcov .idea .vscode
    .ipynb_checkpoints .next .nyc_output .ccache target/debug target/release __snapshots__ .history
    .scannerwork .metals .bloop .dart_tool .terraform
    """
)
_TOOL_FILES = words(".coverage .coverage.* coverage.xml lcov.info tags .tags cscope.out *.tsbuildinfo")
_INDEX = re.compile(rb"find[-_]links|extra[-_]index|index[-_]url|file://\S+\.whl|registry\s*=", re.I)
_INDEX_FILES = ("pip.conf", ".pip.conf", "pip.ini", ".npmrc", ".yarnrc", ".pypirc", ".condarc", "uv.toml")
_READ = words(
    """
    .cache/ site-packages/.cache .mypy_cache .ruff_cache .pytest_cache htmlcov .cargo/registry
    """
)


def probe(scene: Scene) -> Iterator[Found]:
    """Folders and files by name; index configuration by its content."""
    yield from by_name(scene, "B04", _PACKAGES, ())
    yield from by_name(scene, "B05", _TOOLS, _TOOL_FILES)
    for entry in scene.strangers:
        if entry.is_file and entry.name in _INDEX_FILES and _INDEX.search(scene.contents[entry.path]):
            yield Found(route="B07", path=entry.path, evidence=scene.contents[entry.path])


def signature(action: Action) -> str | None:
    """Listing or reading caches; looking for packages on the disk."""
    words = action.argv[1:3]
    if action.program in ("pip", "pip3", "uv", "npm", "yarn") and words[:1] == ("cache",):
        return "B04"
    if action.program == "find" and any(w.endswith((".whl", ".pyc", ".crate", ".egg")) for w in action.argv):
        return "B04"
    if action.program in ("pip", "pip3") and words[:1] == ("config",):
        return "B07"
    if any(part in f"{path}/" for path in action.paths for part in _READ) and action.program != "rm":
        return "B05" if any("_cache" in path or "htmlcov" in path for path in action.paths) else "B04"
    return None


ROUTES = (
    Route(
        ids=("B04", "B05", "B07"),
        title="caches of packages and tools",
        probe=probe,
        scrub=Scrub.remove,
        signature=signature,
    ),
)
