"""What a run made, taken out of the store: the policy a stage trained, or the rollouts it sampled."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mimo.errors import RecipeError
from mimo.pipeline.compare import find_run
from mimo.pipeline.compared_run import ComparedRun, StageFacts
from mimo.pipeline.project import Request
from mimo.rollouts.find import STORES, stage_entries
from mimo.run_dir.files import disk_full_is_clear, write_json
from mimo.types import Json

ABOUT = "mimo.json"
"""Where an exported folder says what it is made of."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Exported:
    """The folder that was made, what it holds (file or part -> number or size), and where that comes from."""

    folder: Path
    holds: dict[str, int]
    about: dict[str, Json]

    def as_json(self) -> dict[str, Json]:
        """The export as data."""
        return {"schema": 1, "folder": str(self.folder), "holds": dict[str, Json](self.holds), **self.about}


def export_model(name: str, stage: str, out: Path, profile: str | None = None) -> Exported:
    """The newest policy that a stage of a run trained, as a Hugging Face folder; every file is checked first.

    Args:
        name: a run id, `last`, or a recipe (its newest run). out: a folder that is not there yet.

    Raises:
        RecipeError: no such run or stage, a stage that trains nothing or has no checkpoint yet, a damaged
            checkpoint, or `out` is there.
    """
    from mimo.training.checkpoint import MODEL, newest_checkpoint  # here: not for `mimo show`

    side, item, place = _stage(name, stage, profile)
    damage: list[str] = []
    found = newest_checkpoint(
        place / "checkpoints", contents="model", on_damaged=lambda _, why: damage.append(why)
    )
    if damage:
        raise RecipeError(
            f"{stage}: its newest checkpoint is damaged: {damage[0]}",
            hint=f"make it again: `{_command(side, stage)}`",
        )
    if found is None:
        raise RecipeError(
            f"{stage} of run {side.run.run_id} has no checkpoint ({item.what})",
            hint="cold-start, rl-mixed and mopd2 train a policy",
        )
    folder, record = found
    about = _about(side, item) | {"step": record.step, "checkpoint": str(folder)}
    sizes: dict[str, int] = {}
    with _made(out) as partial:
        for path in sorted((folder / MODEL).iterdir()):
            shutil.copyfile(path, partial / path.name)  # readable for all, unlike the checkpoint's own
            sizes[path.name] = path.stat().st_size
        write_json(partial / ABOUT, {"schema": 1, **about})
    return Exported(folder=out, holds=sizes, about=about)


def export_data(name: str, stage: str, out: Path, profile: str | None = None) -> Exported:
    """The rollouts of a stage of a run as JSON lines, a record each; groups too where the stage keeps them.

    `rollouts.jsonl`, and apart from it `demonstrations.jsonl` (cold-start), `evaluation.jsonl` (mopd2),
    `groups.jsonl` (rl-mixed).

    Raises:
        RecipeError: no such run or stage, no rollouts, damaged ones, or `out` is there.
    """
    side, item, place = _stage(name, stage, profile)
    about, holds = _about(side, item), dict[str, int]()
    with _made(out) as partial:
        for store in STORES:
            file = f"{store or 'rollouts'}.jsonl"
            number = _write(partial / file, (entry.line for entry in stage_entries(stage, place, (store,))))
            holds |= {file: number} if number else {}
        groups = sorted((place / "groups").glob("*.jsonl"))
        if groups:
            lines = (line for path in groups for line in path.read_bytes().splitlines(keepends=True))
            holds["groups.jsonl"] = _write(partial / "groups.jsonl", lines)
        if not holds:
            raise RecipeError(f"{stage} of run {side.run.run_id} has no rollouts ({item.what})")
        write_json(partial / ABOUT, {"schema": 1, **about})
    return Exported(folder=out, holds=holds, about=about)


def _stage(name: str, stage: str, profile: str | None) -> tuple[ComparedRun, StageFacts, Path]:
    side = find_run(name, profile)
    item = side.stages.get(stage)
    if item is None:
        raise RecipeError(
            f"run {side.run.run_id} has no stage {stage!r}", hint=f"it has {', '.join(side.stages)}"
        )
    place = item.folder or item.partial
    if place is None:
        raise RecipeError(f"run {side.run.run_id} has no result of {stage} ({item.what})")
    return side, item, place


def _command(side: ComparedRun, stage: str) -> str:
    record = side.record
    request = Request(recipe=Path(record.recipe_file), overrides=record.overrides)
    return shlex.join([*request.words("run", profile=record.profile or None), "--from", stage])


def _about(side: ComparedRun, item: StageFacts) -> dict[str, Json]:
    policy = side.record.recipe.get("policy")
    return {
        "run": side.run.run_id,
        "stage": item.stage,
        "key": item.key,
        "finished": item.done,
        "recipe": side.record.name,
        "profile": side.record.profile,
        "policy": policy.get("source") if isinstance(policy, dict) else None,
    }


def _write(file: Path, lines: Iterator[bytes]) -> int:
    """The number of lines written; no file for none."""
    number = 0
    with open(file, "wb") as target:
        for line in lines:
            target.write(line)
            number += 1
    if not number:
        file.unlink()
    return number


@contextmanager
def _made(out: Path) -> Iterator[Path]:
    """A folder that becomes `out` when all went well, and is gone otherwise."""
    if out.exists() or out.is_symlink():
        raise RecipeError(f"{out} is there already", hint="--out names a new folder")
    partial = out.absolute().with_name(f".{out.absolute().name}.{os.getpid()}.part")
    try:
        with disk_full_is_clear(out):
            partial.mkdir(parents=True)
            yield partial
            partial.rename(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
