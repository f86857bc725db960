"""A drawn task as a folder in Harbor's layout: the file at the start, instruction, thresholds, reference."""

from __future__ import annotations

import json
from pathlib import Path

from mimo.domains.visual.draw import Draw
from mimo.domains.visual.family import SIZE
from mimo.types import Json

LICENSE = "CC0-1.0"
MIN_PIXELS = 0.997
MIN_STRUCTURE = 0.98
"""Below these a picture is another one: 27 wrong pixels of 9216 are edges, the smallest shape has 113."""
FACTS = "tests/picture.json"
"""What is rendered and how alike it has to be; read again from the task's own record."""
_DOCKERFILE = """\
FROM python:3.11-slim
WORKDIR /work
COPY repo/ /work/
"""
_SOLVE_SH = """\
#!/bin/bash
cp -R /solution/files/. .
"""


def write_task(draw: Draw, version: str, folder: Path) -> Path:
    """Write the task folder `folder/<task_id>` and return it; every byte follows from the draw."""
    root = folder / draw.task_id
    for path, text in _files(draw, version).items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        if text.startswith("#!"):
            target.chmod(0o755)
    return root


def _files(draw: Draw, version: str) -> dict[str, str]:
    file = draw.family.file
    return {
        "task.toml": _task_toml(draw, version),
        "instruction.md": instruction(draw) + "\n",
        "environment/Dockerfile": _DOCKERFILE,
        f"environment/repo/{file}": _text(draw.start),
        FACTS: json.dumps(facts(draw), indent=1),
        f"solution/files/{file}": _text(draw.right()),
        "solution/solve.sh": _SOLVE_SH,
    }


def instruction(draw: Draw) -> str:
    """What the policy is told: the picture in words (unless an image says it) and the file as it is."""
    file = draw.family.file
    shown = "\n".join(f"{number} {line}" for number, line in enumerate(draw.start, 1))
    words = draw.case.words or "what the image shows"
    if draw.level == 1:
        head = f"{file} should show, on white, {words}. One value is wrong. Repair it."
    else:
        head = f"Draw in {file}, on white, {SIZE} x {SIZE} pixels: {words}."
    return f"{head}\n{shown}"


def facts(draw: Draw) -> dict[str, Json]:
    """What the verifier must know."""
    return {
        "file": draw.family.file,
        "renderer": draw.family.renderer,
        "width": SIZE,
        "height": SIZE,
        "min_pixels": MIN_PIXELS,
        "min_structure": MIN_STRUCTURE,
        "seen": draw.family.seen,
    }


def _text(lines: tuple[str, ...]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _task_toml(draw: Draw, version: str) -> str:
    named: dict[str, Json] = {
        "schema": 1,
        "task_id": draw.task_id,
        "domain": "visual",
        "family": draw.family.name,
        "split": draw.family.split,
        "kind": "generated",
        "name": "mimo-visual",
        "version": version,
        "license": LICENSE,
        "runner": "render",
        "fail_to_pass": ["picture"],
        "level": draw.level,
        "shown": True,
    }
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in named.items())
    return (
        f'version = "1.0"\n\n[task]\nname = "mimo/{draw.task_id}"\n\n[metadata]\ndifficulty = "easy"\n\n'
        f"[metadata.mimo]\n{lines}\n\n"
        "[agent]\ntimeout_sec = 600.0\n\n[verifier]\ntimeout_sec = 60.0\n\n"
        '[environment]\nbuild_timeout_sec = 600.0\ncpus = 1\nmemory_mb = 512\nnetwork_mode = "no-network"\n'
    )
