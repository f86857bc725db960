"""Tags and parameters of runs: tags may change when a run is resumed, parameters never can."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mimo.tracking.names import KEY_LIMIT, flatten, tag_text
from mimo.tracking.owner import host, user
from mimo.types import Json

if TYPE_CHECKING:
    from mlflow import MlflowClient

_NOT_TAGS = {"run", "params", "recipe_text", "origins", "diff", "note", "commit", "branch", "command", "key"}


def run_identity(run: str) -> dict[str, str]:
    """The tags by which the parent run is found again."""
    return {"mimo.run": run, "mimo.kind": "run"}


def stage_identity(run: str, stage: str, key: str) -> dict[str, str]:
    """The tags by which the child run of a stage is found again: an interrupted one goes on in it."""
    return {"mimo.run": run, "mimo.kind": "stage", "mimo.stage": stage, "mimo.key": key}


def ours() -> dict[str, str]:
    """Tags MLflow would otherwise guess from the process."""
    return {"mlflow.user": user(), "mlflow.source.type": "LOCAL", "mlflow.source.name": "mimo"}


def of_run(info: Mapping[str, Json], home: Path) -> dict[str, str]:
    """The parent run's tags."""
    known = {
        "mlflow.runName": info["run"],
        "mlflow.note.content": info.get("note") or _note(info, home),
        "mlflow.source.name": info.get("command") or f"mimo run {info.get('recipe', '')}".strip(),
        "mlflow.source.git.commit": info.get("commit") or "unknown",
        "mlflow.source.git.branch": info.get("branch") or "unknown",
        "mlflow.source.git.dirty": info.get("dirty"),
        "mimo.host": info.get("host") or host(),
    }
    return {**_plain(info), **{key: tag_text(value) for key, value in known.items() if value is not None}}


def of_stage(info: Mapping[str, Json]) -> dict[str, str]:
    """The child run's tags."""
    return {"mimo.host": host(), **_plain(info)}


def set_all(client: MlflowClient, mlflow_id: str, tags: Mapping[str, str]) -> None:
    """Set the tags in one call."""
    from mlflow.entities import RunTag

    client.log_batch(mlflow_id, tags=[RunTag(key, value) for key, value in tags.items()])


def log_params(client: MlflowClient, mlflow_id: str, params: Mapping[str, Json]) -> None:
    """Log parameters MLflow does not have; `runtime.*` and values that changed since go into tags."""
    from mlflow.entities import Param

    flat = flatten(params)
    runtime = {key: value for key, value in flat.items() if key.startswith("runtime.")}
    known = client.get_run(mlflow_id).data.params
    fresh = {key: value for key, value in flat.items() if key not in known and key not in runtime}
    changed = {
        f"mimo.changed.{key}"[:KEY_LIMIT]: tag_text(value)
        for key, value in flat.items()
        if key in known and known[key] != value
    }
    client.log_batch(mlflow_id, params=[Param(key, value) for key, value in fresh.items()])
    set_all(client, mlflow_id, {**{key: tag_text(value) for key, value in runtime.items()}, **changed})


def _plain(info: Mapping[str, Json]) -> dict[str, str]:
    return {
        f"mimo.{key}": tag_text(value)
        for key, value in info.items()
        if key not in _NOT_TAGS and isinstance(value, str | int | float | bool)
    }


def _note(info: Mapping[str, Json], home: Path) -> str:
    lines = [
        f"**{key}**: `{str(info[key]).replace('`', ' ')}`"
        for key in ("recipe", "variant", "profile", "command", "commit")
        if info.get(key)
    ]
    return "  \n".join([*lines, f"Files: `{home / 'runs' / str(info['run'])}` (MLflow is a copy of them)."])
