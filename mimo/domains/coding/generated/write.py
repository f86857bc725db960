"""A drawn task as a folder in Harbor's layout: repository, instruction, hidden tests, reference."""

from __future__ import annotations

import difflib
import json
from pathlib import Path

from mimo.domains.coding.generated.draw import Case, Draw
from mimo.types import Json

HIDDEN_TESTS = "test_hidden.py"
LICENSE = "CC0-1.0"

_DOCKERFILE = """\
FROM python:3.11-slim
WORKDIR /work
COPY repo/ /work/
"""
_TEST_SH = """\
#!/bin/bash
mkdir -p /logs/verifier
if python3 -m pytest -q /tests/test_hidden.py; then reward=1; else reward=0; fi
echo $reward > /logs/verifier/reward.txt
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
        if target.suffix == ".sh":
            target.chmod(0o755)
    return root


def _files(draw: Draw, version: str) -> dict[str, str]:
    layout = draw.layout
    right = layout.module(draw.spelling.source)
    wrong = layout.module(draw.bug.apply(draw.spelling.source))
    files = {
        "task.toml": _task_toml(draw, version),
        "instruction.md": instruction(draw, wrong),
        "environment/Dockerfile": _DOCKERFILE,
        f"environment/repo/{layout.module_path}": wrong,
        f"environment/repo/{layout.test_path}": _tests(draw, draw.visible),
        "tests/test.sh": _TEST_SH,
        f"tests/{HIDDEN_TESTS}": _tests(draw, draw.hidden),
        "solution/solve.sh": _SOLVE_SH,
        f"solution/files/{layout.module_path}": right,
        "solution/reference.patch": _patch(layout.module_path, wrong, right),
    }
    if layout.package:
        files[f"environment/repo/{layout.package}/__init__.py"] = ""
    return files


def instruction(draw: Draw, module: str) -> str:
    """What the policy is told: the file, the function, the files there are, and (if shown) the lines."""
    layout = draw.layout
    text = f"Fix {draw.spelling.function} in {layout.module_path}: it must do what its docstring says.\n"
    text += f"Tests: {layout.test_path}\n"
    if draw.shown:
        text += f"{layout.module_path}:\n{numbered(module)}\n"
    return text


def numbered(text: str, first: int = 1) -> str:
    """The lines of `text` with their numbers, as every observation shows them."""
    return "\n".join(
        f"{number} {line}".rstrip() for number, line in enumerate(text.rstrip("\n").split("\n"), first)
    )


def _tests(draw: Draw, cases: tuple[Case, ...]) -> str:
    function = draw.spelling.function
    text = f"from {draw.layout.import_from} import {function}\n"
    for number, case in enumerate(cases, 1):
        text += f"\n\ndef test_{number}():\n    assert {_claim(function, case)}\n"
    return text


def _claim(function: str, case: Case) -> str:
    call = f"{function}({case.arguments})"
    is_word = case.expected in ("None", "True", "False")
    return f"{call} is {case.expected}" if is_word else f"{call} == {case.expected}"


def _patch(path: str, wrong: str, right: str) -> str:
    return "".join(
        difflib.unified_diff(
            wrong.splitlines(keepends=True), right.splitlines(keepends=True), f"a/{path}", f"b/{path}"
        )
    )


def _task_toml(draw: Draw, version: str) -> str:
    ids = [(f"{HIDDEN_TESTS}::test_{number}", case) for number, case in enumerate(draw.hidden, 1)]
    facts: dict[str, Json] = {
        "schema": 1,
        "task_id": draw.task_id,
        "domain": "coding",
        "family": draw.family.name,
        "split": draw.family.split,
        "kind": "generated",
        "name": "mimo-coding",
        "version": version,
        "license": LICENSE,
        "runner": "functions",
        "visible": [draw.layout.test_path],
        "fail_to_pass": [name for name, case in ids if case.broken],
        "pass_to_pass": [name for name, case in ids if not case.broken],
        "bug": draw.bug.kind,
        "level": draw.level,
        "shown": draw.shown,
    }
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in facts.items())
    return (
        f'version = "1.0"\n\n[task]\nname = "mimo/{draw.task_id}"\n\n[metadata]\ndifficulty = "easy"\n\n'
        f"[metadata.mimo]\n{lines}\n\n"
        "[agent]\ntimeout_sec = 600.0\n\n[verifier]\ntimeout_sec = 60.0\n\n"
        '[environment]\nbuild_timeout_sec = 600.0\ncpus = 1\nmemory_mb = 512\nnetwork_mode = "no-network"\n'
    )
