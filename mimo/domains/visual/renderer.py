"""What renders drawings and pages: resvg, brought into a box, and the machine's Chromium."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import metadata, resources
from pathlib import Path
from tempfile import TemporaryDirectory

from mimo.errors import MachineLacks
from sandbox.scratch import temporary_parent

PROGRAM = "mimo.domains.visual.boxed.render_svg"
"""Named in full, so that it is part of a stage's code digest."""
CHROMIUM = ("/usr/lib/chromium/chromium", "/usr/bin/chromium", "/usr/bin/chromium-browser")
"""Where the browser lies; the first one that is there. All below /usr, which is what a build box has."""
_LIBRARY = re.compile(r"^\s*(lib(?:gcc_s|pthread|dl|rt)\.so\.\d+) => (/\S+)", re.MULTILINE)
"""Libraries that a box may lack, as `ldd` lists them; each is a leaf that needs libc alone."""


@contextmanager
def renderer_folder() -> Iterator[Path]:
    """A temporary folder to mount into a box: our program, resvg, and libraries that a box may lack.

    Raises:
        MachineLacks: resvg_py is not installed here.
    """
    package = require_renderer()
    with TemporaryDirectory(prefix="mimo-render-", dir=temporary_parent()) as name:
        folder = Path(name)
        shutil.copytree(package, folder / "resvg_py", ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "lib").mkdir()
        for library, place in _libraries(package).items():
            shutil.copyfile(place, folder / "lib" / library)
        source, _, module = PROGRAM.rpartition(".")
        program = resources.files(source).joinpath(f"{module}.py").read_bytes()
        (folder / "render_svg.py").write_bytes(program)
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        yield folder


@cache
def require_renderer() -> Path:
    """The folder of the package resvg_py.

    Raises:
        MachineLacks: it is not installed.
    """
    found = importlib.util.find_spec("resvg_py")
    if found is None or not found.submodule_search_locations:
        raise MachineLacks(
            "visual tasks are rendered with resvg_py, which is not installed",
            hint="pip install resvg_py (it is in the lock), or leave the visual sources out of tasks.sources",
        )
    return Path(found.submodule_search_locations[0])


def renderer_name() -> str:
    """The renderer of drawings with its version, for a verdict's detail."""
    return f"resvg_py {metadata.version('resvg_py')}"


@cache
def browser() -> str | None:
    """The path of Chromium's program on this machine, or None."""
    return next((path for path in CHROMIUM if Path(path).is_file()), None)


@cache
def _libraries(package: Path) -> dict[str, str]:
    """Name to place of the host's libraries that the package loads and a box may lack."""
    modules = [str(path) for path in package.glob("*.so")]
    text = subprocess.run(["ldd", *modules], capture_output=True, text=True, check=False).stdout
    return dict(_LIBRARY.findall(text))
