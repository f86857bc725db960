"""Render what a policy wrote in a fresh box: a drawing by resvg, a page by Chromium.

The box of a drawing is one of the recipe's back end. The browser is the machine's own, so that the box of a
page is always one of this machine (as a compiler's is), with `/usr` read-only and no network.
"""

from __future__ import annotations

import base64
import json
import secrets
import shlex
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from mimo.domains.visual.compare import MAX_PICTURE_BYTES, cropped
from mimo.domains.visual.renderer import browser, renderer_folder
from mimo.errors import MachineLacks
from sandbox import open_sandbox
from sandbox.base import BoxLimits, BoxSpec, Sandbox
from sandbox.build_root import build_root
from sandbox.errors import SandboxError, SandboxLimit
from sandbox.scratch import temporary_parent

MOUNT = "/verify"
DRAWING = "/tmp/drawing.svg"
MAX_CPU_S = 5
MAX_WALL_S = 20.0
MEMORY_MB = 512
"""Address space of the process that renders a drawing."""
_PAGE_LIMITS = BoxLimits(
    wall_s=150.0, command_s=120.0, memory_mb=1024, processes=256, disk_mb=256, output_bytes=16_384
)
_PAGE_S = 60.0
WINDOW = (800, 600)
"""Of the browser: headless Chromium takes part of a small window for itself; the picture is cut out."""
_BROWSER = (
    "--headless --no-sandbox --no-zygote --disable-gpu --disable-dev-shm-usage --hide-scrollbars "
    "--disable-background-networking --disable-sync --disable-extensions --no-first-run "
    "--force-device-scale-factor=1 --force-color-profile=srgb --user-data-dir=/tmp/profile "
    "--screenshot=/tmp/page.png --window-size={window} file:///work/page.html"
)

OpenMounted = Callable[[Mapping[str, Path]], Sandbox]
"""`(read-only mounts) -> a fresh box`."""


class NotRendered(Exception):
    """There is no picture; the message says why."""


def render_drawing(
    text: str, *, width: int, height: int, open_box: OpenMounted, timeout_s: float
) -> tuple[bytes, int]:
    """The PNG of a drawing that was written anew by `clean_drawing`, and how many signed answers came.

    Raises:
        NotRendered: the renderer refuses it, or took too long or too much.
        SandboxError: no box could be opened (the machine's fault).
    """
    key = secrets.token_hex(16)
    plan = {
        "key": key,
        "renderer": MOUNT,
        "drawing": DRAWING,
        "width": width,
        "height": height,
        "cpu_s": MAX_CPU_S,
        "memory_mb": MEMORY_MB,
        "wall_s": max(1.0, min(MAX_WALL_S, timeout_s - 2.0)),
        "max_bytes": MAX_PICTURE_BYTES,
    }
    command = (
        f"printf %s {shlex.quote(json.dumps(plan))} | "
        f"env -i PATH=/usr/bin:/bin python3 -I -S -B {MOUNT}/render_svg.py"
    )
    with renderer_folder() as folder, open_box({MOUNT: folder}) as box:
        box.write(DRAWING, text.encode())
        try:
            output = box.exec(command, timeout_s=timeout_s, max_output_bytes=2 * MAX_PICTURE_BYTES)
        except SandboxLimit as error:
            raise NotRendered(f"the renderer hit a limit: {error.kind}") from error
        box.freeze()
    if output.timed_out or output.limit is not None:
        raise NotRendered(f"{output.limit} limit" if output.limit else "rendering took too long")
    return _answer(output.output, key)


def _answer(output: str, key: str) -> tuple[bytes, int]:
    bodies = []
    for line in output.split("\n"):
        word, _, body = line.strip("\r").partition(" ")
        if secrets.compare_digest(word.encode("utf-8", "replace"), key.encode()):
            bodies.append(body)
    if not bodies:
        raise NotRendered("the renderer gave no answer")
    try:
        answer = json.loads(bodies[0])
        picture = base64.b64decode(str(answer["picture"]), validate=True)
    except ValueError as error:
        raise NotRendered("the renderer's answer is cut") from error
    if answer["error"] is not None:
        raise NotRendered(str(answer["error"])[:300])
    return picture, len(bodies)


def require_browser() -> str:
    """The browser's program; MachineLacks where there is none."""
    program = browser()
    if program is None:
        raise MachineLacks(
            "pages are rendered with Chromium, and this machine has none",
            hint="Debian's package is chromium (as root: make system)",
        )
    return program


def render_page(text: str, *, width: int, height: int) -> bytes:
    """The PNG of a page that was written anew by `clean_page`.

    Raises:
        NotRendered: no picture within the limits.
        NoPicture: what the browser wrote is none.
        MachineLacks: no Chromium here.
        SandboxError: no box could be opened.
    """
    program = require_browser()
    with tempfile.TemporaryDirectory(prefix="mimo-page-", dir=temporary_parent()) as name:
        folder = Path(name)
        rootfs, mounts = build_root(folder / "root")
        tree = folder / "tree"
        tree.mkdir()
        (tree / "page.html").write_text(text)
        spec = BoxSpec(
            rootfs=rootfs,
            snapshot=tree,
            workdir="/work",
            env={"PATH": "/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8"},
            limits=_PAGE_LIMITS,
            readonly=mounts,
        )
        with open_sandbox("local", spec) as box:
            words = _BROWSER.format(window=f"{WINDOW[0]},{WINDOW[1]}")
            seen = box.exec(f"{program} {words} >/tmp/words 2>&1", timeout_s=_PAGE_S)
            if seen.timed_out or seen.limit is not None:
                raise NotRendered(f"{seen.limit} limit" if seen.limit else "the browser took too long")
            try:
                picture = box.read("/tmp/page.png", max_bytes=MAX_PICTURE_BYTES + 1)
            except SandboxError as error:
                raise NotRendered(f"the browser made no picture (exit {seen.exit_code})") from error
    return cropped(picture, window=WINDOW, width=width, height=height)
