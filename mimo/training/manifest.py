"""The manifest of an exported model folder: what was written, whether it is all there, and what changed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

from safetensors import SafetensorError, safe_open

from mimo.errors import EngineFailed
from mimo.training.files import read_json
from mimo.types import Json

MANIFEST = "manifest.json"


def read_manifest(model_dir: Path) -> dict[str, Json]:
    """The manifest of an exported folder; EngineFailed when it has none."""
    try:
        return read_json(model_dir / MANIFEST)
    except (OSError, ValueError) as error:
        raise EngineFailed(f"{model_dir}: no readable manifest: {error}") from error


def changed_tensors(old: Mapping[str, Json], new: Mapping[str, Json]) -> list[str]:
    """Names of tensors whose content, shape or dtype differs between two manifests, or that one of them lacks."""
    before, after = (cast("dict[str, Json]", manifest["tensors"]) for manifest in (old, new))
    return sorted(
        name for name in before.keys() | after.keys() if _content(before, name) != _content(after, name)
    )


def check_export(model_dir: Path, expected: Mapping[str, Json] | None = None) -> dict[str, Json]:
    """The manifest, after the folder was found to hold exactly its tensors (and those of `expected`, if given).

    An engine that loads a folder without a layer only warns, so names, shapes and dtypes are compared here.

    Raises:
        EngineFailed: every tensor that is missing, extra, or of another shape or dtype.
    """
    manifest = read_manifest(model_dir)
    wanted = cast("dict[str, dict[str, Json]]", manifest["tensors"])
    if expected is not None:
        other = cast("dict[str, dict[str, Json]]", expected["tensors"])
        _compare({name: _shape(facts) for name, facts in other.items()}, wanted, model_dir)
    found: dict[str, tuple[list[int], str]] = {}
    for file in sorted({str(facts["file"]) for facts in wanted.values()}):
        try:
            with safe_open(model_dir / file, framework="np") as opened:
                for name in opened.keys():  # noqa: SIM118 - not a mapping
                    part = opened.get_slice(name)
                    found[name] = (list(part.get_shape()), str(part.get_dtype()))
        except (OSError, SafetensorError) as error:
            raise EngineFailed(f"{model_dir / file}: not readable: {error}") from error
    _compare(found, wanted, model_dir)
    return manifest


def _compare(
    found: Mapping[str, tuple[list[int], str]], wanted: Mapping[str, Mapping[str, Json]], model_dir: Path
) -> None:
    problems = [f"{name} is missing" for name in wanted.keys() - found.keys()]
    problems += [f"{name} is unknown" for name in found.keys() - wanted.keys()]
    problems += [
        f"{name} is {found[name]}, expected {_shape(facts)}"
        for name, facts in wanted.items()
        if name in found and found[name] != _shape(facts)
    ]
    if problems:
        raise EngineFailed(
            f"{model_dir}: {len(problems)} tensors are not as they should be: {'; '.join(sorted(problems)[:8])}"
        )


def _shape(facts: Mapping[str, Json]) -> tuple[list[int], str]:
    return cast("list[int]", facts["shape"]), str(facts["dtype"])


def _content(tensors: Mapping[str, Json], name: str) -> tuple[Json, ...] | None:
    facts = cast("dict[str, Json] | None", tensors.get(name))
    return None if facts is None else (facts["shape"], facts["dtype"], facts["sha256"])
