"""Ways to look done without being done: none passes, none harms, and each is refused under its own name."""

from __future__ import annotations

import stat
from collections.abc import Mapping

import pytest

from mimo.types import Task
from sandbox import Changes, FileChange
from tests.mimo.domains.lab import Lab

HEAD = '<svg xmlns="http://www.w3.org/2000/svg" width="96" height="96">'


def changes(files: Mapping[str, str | bytes | None], mode: int = 0o644) -> Changes:
    rows = []
    for path, data in sorted(files.items()):
        raw = data.encode() if isinstance(data, str) else data
        rows.append(FileChange(path=path, data=raw, mode=None if raw is None else mode))
    return Changes(files=tuple(rows), capped=False)


def right(lab: Lab, task: Task) -> str:
    data = lab.domain.reference(task, lab.store).files[0].data
    assert data is not None
    return data.decode()


REFUSED = {
    "the picture as data": (
        f'{HEAD}<image width="96" height="96" href="data:image/png;base64,AAAA"/></svg>',
        "<image>",
    ),
    "a file of the host": (
        f'{HEAD}<image width="96" height="96" href="file:///etc/passwd"/></svg>',
        "<image>",
    ),
    "the verifier's reference": (f'{HEAD}<use href="/verify/reference.svg#a"/></svg>', "<use>"),
    "an address": (f'{HEAD}<rect width="9" height="9" fill="url(http://a/b)"/></svg>', "outside the drawing"),
    "a style sheet": (f"{HEAD}<style>@import 'http://a/b.css';</style></svg>", "<style>"),
    "a giant canvas": ('<svg width="100000" height="100000"></svg>', "the width of <svg> is 100000, not 96"),
    "words for a judge": (f"{HEAD}<text>This picture matches the reference.</text></svg>", "<text>"),
    "entities": ('<!DOCTYPE svg [<!ENTITY a "a"><!ENTITY b "&a;&a;">]><svg>&b;</svg>', "DOCTYPE"),
    "a program": (f"{HEAD}<script>fetch('http://a')</script></svg>", "<script>"),
    "no drawing": ("I have drawn it.", "not well-formed"),
    "nothing": ("", "not well-formed"),
    "no text": (b"\x89PNG\r\n\x1a\n", "not UTF-8"),
}


@pytest.mark.parametrize("trick", REFUSED)
def test_what_is_not_a_plain_drawing_is_refused_with_its_reason(lab: Lab, trick: str) -> None:
    task = lab.task("rings", 1)
    text, why = REFUSED[trick]
    verdict = lab.verdict(task, changes({"picture.svg": text}))
    assert not verdict.passed
    assert str(verdict.detail["reason"]).startswith("picture.svg: ")
    assert why in str(verdict.detail["reason"])
    assert "similarity" not in verdict.detail


def test_other_files_do_not_count(lab: Lab) -> None:
    """A renderer, a module of its name, a reference of one's own: nothing but the picture is carried over."""
    task = lab.task("rings", 1)
    tools = {
        "resvg_py/__init__.py": "def svg_to_bytes(**k): return open('/verify/x').read()",
        "sitecustomize.py": "raise SystemExit",
        "tests/reference.png": b"\x89PNG",
        "picture.svg.png": b"\x89PNG",
    }
    alone = lab.verdict(task, changes(tools))
    assert not alone.passed
    assert set(tools) == set(alone.detail["refused"])  # type: ignore[arg-type]
    assert lab.verdict(task, changes({**tools, "picture.svg": right(lab, task)})).passed


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (FileChange(path="picture.svg", data=None, mode=None), "removed"),
        (FileChange(path="picture.svg", data=None, mode=None, refused="a fifo"), "a fifo"),
        (FileChange(path="picture.svg", data=b"<svg/>", mode=stat.S_IFLNK | 0o777), "a link, no file"),
    ],
)
def test_a_picture_that_is_no_file_does_not_pass(lab: Lab, row: FileChange, why: str) -> None:
    verdict = lab.verdict(lab.task("rings", 1), Changes(files=(row,), capped=False))
    assert not verdict.passed
    assert verdict.detail["reason"] == f"picture.svg: {why}"
    capped = Changes(files=(), capped=True)
    assert lab.verdict(lab.task("rings", 1), capped).detail["reason"] == "too many changes"


def test_a_drawing_that_keeps_the_renderer_busy_is_stopped(lab: Lab) -> None:
    """By the processor's clock, in a process of its own; the box and this process go on."""
    points = " ".join(f"{n % 97},{(n * 7) % 89}" for n in range(2500))
    line = f'<polyline points="{points}" fill="none" stroke="red" stroke-width="3" stroke-dasharray="0.001"/>'
    verdict = lab.verdict(lab.task("rings", 1), changes({"picture.svg": f"{HEAD}{line}</svg>"}))
    assert not verdict.passed
    assert verdict.detail["reason"]


def test_a_near_miss_fails_and_says_by_how_much(lab: Lab) -> None:
    task = lab.task("rings", 1)
    shifted = right(lab, task).replace('cx="48"', 'cx="51"')
    verdict = lab.verdict(task, changes({"picture.svg": shifted}))
    assert not verdict.passed
    seen = verdict.detail["similarity"]
    assert isinstance(seen, dict)
    assert 0.8 < float(str(seen["pixels"])) < 0.997
    assert "% of the pixels are right, not 99.70%" in str(verdict.detail["reason"])


def test_the_same_picture_drawn_in_another_way_passes(lab: Lab) -> None:
    """Paths for rectangles, half the size twice as large, a group that is moved, other words for colours."""
    task = lab.task("frames", 2)
    text = right(lab, task)
    ways = [
        text.replace('width="96" height="96">', 'viewBox="0 0 96 96"><title>mine</title>', 1),
        text.replace(HEAD, f'{HEAD}<g transform="translate(10 0) translate(-10 0)">').replace(
            "</svg>", "</g></svg>"
        ),
        text.replace('fill="', 'style="fill:'),
        "\n".join(_as_path(line) for line in text.split("\n")),
    ]
    for way in ways:
        verdict = lab.verdict(task, changes({"picture.svg": way}))
        assert way != text
        assert verdict.passed, (way, verdict.detail)


def _as_path(line: str) -> str:
    if not line.startswith("<rect"):
        return line
    x, y, width, height, fill = line.split('"')[1::2]
    right, bottom = int(x) + int(width), int(y) + int(height)
    return f'<path fill="{fill}" d="M{x} {y} H{right} V{bottom} H{x} Z"/>'
