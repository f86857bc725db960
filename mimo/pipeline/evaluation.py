"""A checkpoint on tasks: a recipe of its own beside the runs, whose only policy is the checkpoint.

Its stages are prepare-env, probe-hacks and audit, so that an evaluation is a run like any other: shared task
sets, resume, hack audit, report. Only what names the policy and the stages differs from the recipe given.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

from mimo.errors import RecipeError
from mimo.pipeline.project import Project, Request, open_project
from mimo.recipe.layers import find_recipe
from mimo.recipe.machine import load_for_machine
from mimo.recipe.project import project_name
from mimo.run_dir.files import write_atomic
from mimo.run_dir.home import find_home

STAGES = ("prepare-env", "probe-hacks", "audit")
DEFAULT = "pro"
"""The recipe whose settings a folder of tasks is tried with."""
_MODEL = "model"
_FOLDER = "eval"


def open_evaluation(
    checkpoint: Path,
    what: Path,
    *,
    profile: str | None = None,
    overrides: tuple[str, ...] = (),
    environ: Mapping[str, str] = os.environ,
) -> Project:
    """The project whose run evaluates `checkpoint`.

    Args:
        checkpoint: a Hugging Face folder (config.json), or a checkpoint of mimo (its `model/`).
        what: a recipe, whose tasks and settings are used, or a folder of task folders.

    Raises:
        RecipeError: no model in `checkpoint`, or anything wrong with the recipe.
    """
    model = _model(checkpoint)
    recipe = Path(DEFAULT) if what.is_dir() else what
    sources = (f"tasks.sources={json.dumps([_source(what)])}",) if what.is_dir() else ()
    resolved, _ = load_for_machine(recipe, profile=profile, overrides=(*sources, *overrides))
    settings = resolved.model.audit
    attempts = max(settings.heldout_rollouts_per_task, settings.train_rollouts_per_task, 1)
    named = (
        f"policy.source={json.dumps(f'path:{model}')}",
        *(f"policy.{key}=null" for key in ("tokenizer", "keep_layers", "drop_layers", "init")),
        f"stages=[{', '.join(STAGES)}]",
        f"audit.base_rollouts_per_task={attempts}",
    )
    home = find_home(find_recipe(recipe, str(recipe)), environ).create()
    file = home.root / _FOLDER / f"{_name(model, what)}.yaml"
    file.parent.mkdir(exist_ok=True)
    base = find_recipe(recipe, str(recipe)).resolve()
    text = f"# made by `mimo eval`\nschema: 1\nextends: {json.dumps(str(base))}\nname: {file.stem}\n"
    write_atomic(file, text.encode())
    request = Request(recipe=file, profile=resolved.profile, overrides=(*sources, *overrides, *named))
    return open_project(request, environ={**environ, "MIMO_HOME": str(home.root)})


def _model(checkpoint: Path) -> Path:
    for place in (checkpoint, checkpoint / _MODEL):
        if (place / "config.json").is_file():
            return place.resolve()
    raise RecipeError(
        f"{checkpoint}: no config.json",
        hint="name a Hugging Face folder (`mimo export model` makes one) or a checkpoint of mimo",
    )


def _source(folder: Path) -> dict[str, str]:
    return {"kind": "folder", "domain": "coding", "path": str(folder.resolve()), "split": "heldout"}


def _name(model: Path, what: Path) -> str:
    """Equal for the same checkpoint and tasks, so that the same command goes on."""
    digest = hashlib.sha256(f"{model}\0{what.absolute()}".encode()).hexdigest()[:8]
    place = model.parent if model.name == _MODEL else model
    return f"eval-{project_name(place)[:40]}-{digest}"
