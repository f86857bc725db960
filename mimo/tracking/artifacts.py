"""Files of a run in MLflow: small ones copied, large ones listed, checkpoints as external models."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import TYPE_CHECKING

from mimo.tracking.connection import Connection
from mimo.tracking.names import metric_name, tag_text
from mimo.types import Json

if TYPE_CHECKING:
    from mlflow import MlflowClient

_CHECKPOINT = "checkpoint.json"
_TENSORS = (".safetensors", ".pt", ".bin")
_HASH_LIMIT = 64 * 2**20
"""Bytes; larger files are listed without a digest (terabytes are not hashed for a listing)."""
_MOST_FILES = 500
"""Files copied at most; MLflow makes a call for each."""
_DONE = "mimo.artifacts_sha256"


def log_texts(client: MlflowClient, mlflow_id: str, info: Mapping[str, Json]) -> None:
    """The resolved recipe, where each value came from, and the git diff, as files of the parent run."""
    recipe, origins, diff = info.get("recipe_text"), info.get("origins"), info.get("diff")
    if isinstance(recipe, str):
        client.log_text(mlflow_id, recipe, "recipe.yaml")
    if origins:
        client.log_text(mlflow_id, json.dumps(origins, indent=1, ensure_ascii=False), "origins.json")
    if isinstance(diff, str) and diff:
        client.log_text(mlflow_id, diff, "git.diff")


def log_files(connection: Connection, mlflow_id: str, files: Mapping[str, Path], limit_bytes: int) -> None:
    """Copy files up to `limit_bytes` in all, small ones first, and list all in `files.json`.

    Folders with a `checkpoint.json`, also deeper ones, become external models; tensors are never copied. Done
    before, it does nothing.
    """
    client = connection.client
    checkpoints = {
        "-".join([name, *folder.relative_to(path).parts]): folder
        for name, path in files.items()
        for folder in sorted(mark.parent for mark in path.rglob(_CHECKPOINT))
    }
    inside = set(checkpoints.values())
    rows = [row for name, path in files.items() for row in _rows(name, path, inside)]
    rows.sort(key=lambda row: row["size"] if isinstance(row["size"], int) else -1)
    index = json.dumps(rows, indent=1, ensure_ascii=False)
    digest = hashlib.sha256((index + str(limit_bytes)).encode()).hexdigest()
    known = client.get_run(mlflow_id).data.tags
    for name, path in checkpoints.items():
        _external_model(connection, mlflow_id, name, path, known)
    if rows and known.get(_DONE) != digest:
        _copy(client, mlflow_id, rows, limit_bytes)
        client.log_text(mlflow_id, json.dumps(rows, indent=1, ensure_ascii=False), "files.json")
        client.set_tag(mlflow_id, _DONE, digest)


def _copy(client: MlflowClient, mlflow_id: str, rows: list[dict[str, Json]], limit_bytes: int) -> None:
    """Copy while the sum stays within the limit; each row says whether it was."""
    used = count = 0
    for row in rows:
        size = row["size"] if isinstance(row["size"], int) else None
        tensors = str(row["path"]).endswith(_TENSORS)
        row["copied"] = (
            size is not None and not tensors and used + size <= limit_bytes and count < _MOST_FILES
        )
        if size is not None and row["copied"]:
            used, count = used + size, count + 1
            client.log_artifact(mlflow_id, str(row["path"]), artifact_path=str(row["folder"]) or None)


def _rows(name: str, path: Path, leave_out: AbstractSet[Path]) -> Iterator[dict[str, Json]]:
    folder = metric_name(name)
    if not path.exists():
        yield {"name": name, "folder": "", "path": str(path), "size": None, "sha256": None}
    elif path.is_file():
        yield _row(name, "", path)
    else:
        for file in sorted(path.rglob("*")):
            if file.is_file() and not file.is_symlink() and leave_out.isdisjoint(file.parents):
                inner = file.parent.relative_to(path).as_posix()
                yield _row(name, folder if inner == "." else f"{folder}/{inner}", file)


def _row(name: str, folder: str, file: Path) -> dict[str, Json]:
    size = file.stat().st_size
    return {"name": name, "folder": folder, "path": str(file), "size": size, "sha256": _sha256(file, size)}


def _sha256(file: Path, size: int) -> str | None:
    if size > _HASH_LIMIT:
        return None
    with open(file, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _external_model(
    connection: Connection, mlflow_id: str, name: str, path: Path, known: Mapping[str, str]
) -> None:
    """A checkpoint in MLflow's list of models: path, size, digest of its `checkpoint.json`; no copy."""
    from mlflow.entities.logged_model_status import LoggedModelStatus

    digest = _sha256(path / _CHECKPOINT, 0)
    tag = f"mimo.model.{metric_name(name)}"
    if known.get(tag) == digest:
        return
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    facts = {"path": str(path), "size_bytes": str(size), "checkpoint_sha256": str(digest)}
    model = connection.client.create_logged_model(
        connection.experiment_id,
        name=metric_name(name).replace("/", "-").replace(":", "-").replace(".", "-"),
        source_run_id=mlflow_id,
        tags={key: tag_text(value) for key, value in facts.items()} | {"mlflow.model.isExternal": "true"},
        model_type="checkpoint",
    )
    connection.client.finalize_logged_model(model.model_id, LoggedModelStatus.READY)
    connection.client.set_tag(mlflow_id, tag, str(digest))
