"""A drawn task as a folder in Harbor's layout: workspace, instruction, checks of the end state, reference."""

from __future__ import annotations

import json
from pathlib import Path

from mimo.domains.agent.checks import FILE, check_names, end_state
from mimo.domains.agent.draw import Draw
from mimo.domains.agent.family import Case
from mimo.domains.agent.world import DATABASE, World, database
from mimo.records import to_json
from mimo.types import Json

LICENSE = "CC0-1.0"
STEPS = "solution/steps.json"
"""The expert's tool calls, in order; only of training tasks."""
_DOCKERFILE = """\
FROM python:3.11-slim
WORKDIR /work
COPY repo/ /work/
"""
_SOLVE_SH = """\
#!/bin/bash
cp -R /solution/files/. .
while IFS= read -r path; do rm -f -- "$path"; done < /solution/deleted.txt
"""


def write_task(draw: Draw, version: str, folder: Path) -> Path:
    """Write the task folder `folder/<task_id>` and return it; every byte follows from the draw."""
    root = folder / draw.task_id
    for path, data in _files(draw, version).items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        if data.startswith(b"#!"):
            target.chmod(0o755)
    return root


def _files(draw: Draw, version: str) -> dict[str, bytes]:
    case = draw.case
    wanted = end_state(case.after, case.world.schema, case.world.tables, case.rows)
    texts = {
        "task.toml": _task_toml(draw, version),
        "instruction.md": case.instruction + "\n",
        "environment/Dockerfile": _DOCKERFILE,
        FILE: json.dumps(to_json(wanted), ensure_ascii=False, indent=1),
        "solution/solve.sh": _SOLVE_SH,
        "solution/deleted.txt": "".join(f"{path}\n" for path, text in case.after.items() if text is None),
    }
    if draw.family.split == "train":
        texts[STEPS] = json.dumps([{"name": step.name, "arguments": step.arguments} for step in case.steps])
    files = {path: text.encode() for path, text in texts.items()}
    files |= {f"environment/repo/{path}": data for path, data in case.world.contents().items()}
    return files | {f"solution/files/{path}": data for path, data in _reference(case).items()}


def _reference(case: Case) -> dict[str, bytes]:
    """The files of the end state that differ."""
    files = {path: text.encode() for path, text in case.after.items() if text is not None}
    if case.rows:
        world: World = case.world
        files[DATABASE] = database(world.schema, {**world.tables, **case.rows})
    return files


def _task_toml(draw: Draw, version: str) -> str:
    case = draw.case
    turns, stays = check_names(end_state(case.after, case.world.schema, case.world.tables, case.rows))
    facts: dict[str, Json] = {
        "schema": 1,
        "task_id": draw.task_id,
        "domain": "agent",
        "family": draw.family.name,
        "split": draw.family.split,
        "kind": "generated",
        "name": "mimo-agent",
        "version": version,
        "license": LICENSE,
        "runner": "checks",
        "fail_to_pass": list[Json](turns),
        "pass_to_pass": list[Json](stays),
        "level": draw.level,
    }
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in facts.items())
    return (
        f'version = "1.0"\n\n[task]\nname = "mimo/{draw.task_id}"\n\n[metadata]\ndifficulty = "easy"\n\n'
        f"[metadata.mimo]\n{lines}\n\n"
        "[agent]\ntimeout_sec = 600.0\n\n[verifier]\ntimeout_sec = 60.0\n\n"
        '[environment]\nbuild_timeout_sec = 600.0\ncpus = 1\nmemory_mb = 512\nnetwork_mode = "no-network"\n'
    )
