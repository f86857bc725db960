"""The trainer's own state on disk, for an exact resume: weights, optimiser, random numbers, steps done.

Stage 0 writes safetensors and JSON. Stages 1 to 3 write DeepSpeed's checkpoint (its format holds pickles, so
only load what this run wrote). `trainer.json` comes last in both and lists every file: a folder without it,
or with a file of another size or content, does not count.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from mimo.errors import EngineFailed
from mimo.run_dir.files import describe, write_json
from mimo.training.engine import Engine
from mimo.training.optimizers import restore_state, state_of
from mimo.training.state_files import STATE, check_state
from mimo.types import SCHEMA, Json

_TAG = "state"


def save_state(engine: Engine, folder: Path) -> None:
    """Write the folder (every rank calls it); one that was there is replaced when the new one is whole."""
    partial = folder.with_name(f".{folder.name}.part")
    if engine.rank == 0:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
    engine.wait_for_all()
    if engine.config.zero_stage:
        engine.deepspeed.save_checkpoint(str(partial), tag=_TAG)
    elif engine.rank == 0:
        _save_plain(engine, partial)
    engine.wait_for_all()
    if engine.rank == 0:
        write_json(partial / STATE, _facts(engine, partial))
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    engine.wait_for_all()


def load_state(engine: Engine, folder: Path) -> None:
    """Read what `save_state` wrote, on an engine that has not stepped yet.

    Raises:
        EngineFailed: damaged, or of another set-up.
    """
    facts = check_state(folder, quickly=True)  # on every rank; the caller has read all of it
    mine: dict[str, Json] = {
        "zero_stage": engine.config.zero_stage,
        "optimizer": engine.config.optimizer["name"],
    }
    if engine.config.zero_stage:
        mine["ranks"] = engine.world_size
    wrong = [f"{key} {facts[key]!r}, here {value!r}" for key, value in mine.items() if facts[key] != value]
    if wrong:
        raise EngineFailed(f"{folder}: saved with {'; '.join(wrong)}")
    if engine.config.zero_stage:
        path, _ = engine.deepspeed.load_checkpoint(str(folder), tag=_TAG)
        if path is None:
            raise EngineFailed(f"{folder}: DeepSpeed found no checkpoint {_TAG}")
    else:
        _load_plain(engine, folder)
    engine.steps = int(cast(int, facts["steps"]))


def _facts(engine: Engine, folder: Path) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "zero_stage": engine.config.zero_stage,
        "ranks": engine.world_size,
        "optimizer": engine.config.optimizer["name"],
        "steps": engine.steps,
        "files": [asdict(file) for file in describe(folder)],
    }


def _save_plain(engine: Engine, folder: Path) -> None:
    weights = {name: item.detach().cpu().contiguous() for name, item in engine.model.named_parameters()}
    save_file(weights, folder / "weights.safetensors")
    moments = {
        f"{name}/{key}": value.detach().cpu().contiguous()
        for name, item in engine.model.named_parameters()
        for key, value in state_of(engine.optimizer, item).items()
    }
    save_file(moments, folder / "optimizer.safetensors")
    save_file({"cpu": torch.get_rng_state()}, folder / "rng.safetensors")


def _load_plain(engine: Engine, folder: Path) -> None:
    try:
        weights = load_file(folder / "weights.safetensors")
        moments = load_file(folder / "optimizer.safetensors")
        torch.set_rng_state(load_file(folder / "rng.safetensors")["cpu"])
    except (OSError, SafetensorError) as error:
        raise EngineFailed(f"{folder}: not readable: {error}") from error
    parameters = dict(engine.model.named_parameters())
    if parameters.keys() != weights.keys():
        raise EngineFailed(f"{folder}: other tensors: {sorted(parameters.keys() ^ weights.keys())[:8]}")
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(weights[name])
            found = _moments_of(moments, name)
            if found:
                restore_state(engine.optimizer, parameter, _placed(found, parameter))


def _moments_of(moments: Mapping[str, torch.Tensor], name: str) -> dict[str, torch.Tensor]:
    return {key.rpartition("/")[2]: value for key, value in moments.items() if key.rpartition("/")[0] == name}


def _placed(found: Mapping[str, torch.Tensor], parameter: torch.Tensor) -> dict[str, torch.Tensor]:
    """Moments beside their parameter; the step counter stays on the CPU, where torch keeps it."""
    return {key: value if key == "step" else value.to(parameter.device) for key, value in found.items()}
