"""The verdict on a drawing: one file, written anew, rendered in a fresh box, compared with the reference.

1. Of the policy's changes only the picture's own file is carried over; all others are left out and listed.
2. It is read strictly and written anew (`drawing`, `page`): whatever names something outside, runs or draws
   text ends here, with its reason.
3. It is rendered in a box that holds neither the reference nor anything else of the policy's.
4. The picture is compared here, pixel by pixel, with the reference, which was rendered the same way when the
   task was made. Both likenesses have to reach the task's thresholds; they stand in the verdict.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path

from mimo.domains.base import BoxFactory, TaskStore
from mimo.domains.visual.compare import NoPicture, Similarity, decoded, similarity
from mimo.domains.visual.drawing import Refused, clean_drawing
from mimo.domains.visual.page import clean_page
from mimo.domains.visual.render import NotRendered, OpenMounted, render_drawing, render_page
from mimo.domains.visual.renderer import renderer_name
from mimo.types import Json, Task, Verdict, record
from sandbox.base import Changes, Sandbox

REFERENCE = "tests/reference.png"
"""Where a task's private files hold the picture that is wanted."""
CHECK = "picture"


@record
class Wanted:
    """What the verifier must know: the file, what renders it, the canvas, the likeness that passes."""

    file: str
    renderer: str
    width: int
    height: int
    min_pixels: float
    min_structure: float


def wanted_of(facts: Mapping[str, Json]) -> Wanted:
    """From a task's `verifier.expect`."""
    return Wanted(
        file=str(facts["file"]),
        renderer=str(facts["renderer"]),
        width=int(str(facts["width"])),
        height=int(str(facts["height"])),
        min_pixels=float(str(facts["min_pixels"])),
        min_structure=float(str(facts["min_structure"])),
    )


def verify_picture(task: Task, changes: Changes, store: TaskStore, open_box: BoxFactory) -> Verdict:
    """The verdict; `detail` has `refused`, `tests`, `similarity` (pixels, structure), `reason` if it fails.

    Raises:
        SandboxError: no box could be opened (the machine's fault, not the policy's).
    """
    wanted = wanted_of(task.verifier.expect)
    refused = {
        change.path: change.refused or "not the picture"
        for change in changes.files
        if change.path != wanted.file
    }
    detail: dict[str, Json] = {"refused": dict[str, Json](refused)}
    if changes.capped:
        return _failed(detail, "too many changes")

    def open_mounted(mounts: Mapping[str, Path]) -> Sandbox:
        return open_box(store.snapshot(task), mounts)

    try:
        data = _content(wanted, changes, store.snapshot(task))
        picture, answers = rendered(wanted, data, open_mounted, task.verifier.timeout_s)
        if answers != 1:
            return _failed(detail, f"{answers} answers of the renderer", tampered=True)
        seen = decoded(picture, width=wanted.width, height=wanted.height)
    except (Refused, NotRendered, NoPicture) as error:
        return _failed(detail, f"{wanted.file}: {str(error)[:300]}")
    reference = (store.private(task) / REFERENCE).read_bytes()
    alike = similarity(seen, decoded(reference, width=wanted.width, height=wanted.height))
    return _judged(wanted, detail, alike)


def rendered(wanted: Wanted, data: bytes, open_box: OpenMounted, timeout_s: float) -> tuple[bytes, int]:
    """The PNG of the file's content, and how many answers the renderer gave.

    Raises:
        Refused: it is not rendered at all.
        NotRendered: there is no picture.
        MachineLacks: no Chromium for a page.
    """
    size = {"width": wanted.width, "height": wanted.height}
    if wanted.renderer == "chromium":
        return render_page(clean_page(data, **size), **size), 1
    text = clean_drawing(data, **size)
    return render_drawing(text, **size, open_box=open_box, timeout_s=timeout_s)


def _content(wanted: Wanted, changes: Changes, base: Path) -> bytes:
    """The file's content after the changes."""
    mine = [change for change in changes.files if change.path == wanted.file]
    if not mine:
        return (base / wanted.file).read_bytes()
    if mine[0].data is None:
        raise Refused(mine[0].refused or "removed")
    if mine[0].mode is not None and stat.S_ISLNK(mine[0].mode):
        raise Refused("a link, no file")  # what a link holds as data is its target
    return mine[0].data


def _judged(wanted: Wanted, detail: dict[str, Json], alike: Similarity) -> Verdict:
    name = "chromium" if wanted.renderer == "chromium" else renderer_name()
    detail |= {"similarity": {"pixels": alike.pixels, "structure": alike.structure}, "renderer": name}
    if alike.pixels < wanted.min_pixels:
        return _failed(detail, f"{alike.pixels:.2%} of the pixels are right, not {wanted.min_pixels:.2%}")
    if alike.structure < wanted.min_structure:
        return _failed(detail, f"structural similarity {alike.structure}, not {wanted.min_structure}")
    return Verdict(passed=True, tampered=False, detail={**detail, "tests": {CHECK: "passed"}})


def _failed(detail: dict[str, Json], reason: str, *, tampered: bool = False) -> Verdict:
    return Verdict(
        passed=False, tampered=tampered, detail={**detail, "tests": {CHECK: "failed"}, "reason": reason}
    )
