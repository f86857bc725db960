"""The manifest of an exported model folder: what was written, whether it is all there, and what changed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

from mimo.backends.weight_layout import Tensor, check_layout
from mimo.errors import EngineFailed
from mimo.run_dir.files import load_json
from mimo.types import Json

MANIFEST = "manifest.json"


def read_manifest(model_dir: Path) -> dict[str, Json]:
    """The manifest of an exported folder; EngineFailed when it has none."""
    try:
        return load_json(model_dir / MANIFEST)
    except (OSError, ValueError) as error:
        raise EngineFailed(f"{model_dir}: no readable manifest: {error}") from error


def changed_tensors(old: Mapping[str, Json], new: Mapping[str, Json]) -> list[str]:
    """Names of tensors whose content, shape or dtype differs between two manifests, or that one lacks."""
    before, after = _tensors(old), _tensors(new)
    return sorted(
        name for name in before.keys() | after.keys() if _content(before, name) != _content(after, name)
    )


def check_export(model_dir: Path, expected: Mapping[str, Json] | None = None) -> dict[str, Json]:
    """The manifest, after the folder was found to hold exactly its tensors (and those of `expected`).

    An engine that loads a folder without a layer only warns, so names, shapes and dtypes are compared here.

    Raises:
        EngineFailed: tensors that are missing, extra, or of another shape or dtype; tied embeddings.
    """
    manifest = read_manifest(model_dir)
    for wanted in (manifest, expected):
        if wanted is not None:
            check_layout(model_dir, _layout(wanted))
    return manifest


def _tensors(manifest: Mapping[str, Json]) -> dict[str, dict[str, Json]]:
    return cast("dict[str, dict[str, Json]]", manifest["tensors"])


def _layout(manifest: Mapping[str, Json]) -> dict[str, Tensor]:
    return {
        name: Tensor(str(facts["dtype"]), tuple(cast("list[int]", facts["shape"])))
        for name, facts in _tensors(manifest).items()
    }


def _content(tensors: Mapping[str, Mapping[str, Json]], name: str) -> tuple[Json, ...] | None:
    facts = tensors.get(name)
    return None if facts is None else (facts["shape"], facts["dtype"], facts["sha256"])
