"""Which tensors a model folder holds, by its safetensors headers, and whether two folders agree."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import NamedTuple

from mimo.errors import EngineFailed
from mimo.types import Json

MAX_HEADER_BYTES = 100 * 2**20
TIED_HINT = (
    "vLLM keeps the old output head of a tied model when weights are replaced: "
    "write an explicit lm_head.weight and tie_word_embeddings: false"
)


class Tensor(NamedTuple):
    """A tensor's safetensors type (`F32`, `BF16`, …) and shape."""

    dtype: str
    shape: tuple[int, ...]


def tensor_layout(model_dir: Path) -> dict[str, Tensor]:
    """Every tensor of the folder's `*.safetensors` by name.

    Raises:
        EngineFailed: no such file, a damaged header, or a tensor written twice.
    """
    layout: dict[str, Tensor] = {}
    files = sorted(model_dir.glob("*.safetensors"))
    if not files:
        raise EngineFailed(f"{model_dir} holds no *.safetensors file")
    for file in files:
        for name, tensor in _header(file).items():
            if name in layout:
                raise EngineFailed(f"{file} holds {name}, which another file of {model_dir} holds too")
            layout[name] = tensor
    return layout


def _header(file: Path) -> dict[str, Tensor]:
    """The tensors one file names; its size must be what the header promises."""
    try:
        with open(file, "rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            if length > MAX_HEADER_BYTES:
                raise ValueError(f"a header of {length} bytes")
            entries = json.loads(stream.read(length))
        entries.pop("__metadata__", None)
        end = max((entry["data_offsets"][1] for entry in entries.values()), default=0)
        if file.stat().st_size != 8 + length + end:
            raise ValueError(f"{file.stat().st_size} bytes, expected {8 + length + end}")
        return {name: Tensor(entry["dtype"], tuple(entry["shape"])) for name, entry in entries.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise EngineFailed(f"{file} is not a whole safetensors file: {error}") from error


def check_layout(model_dir: Path, served: dict[str, Tensor]) -> None:
    """Return if `model_dir` can replace weights of layout `served` in a running engine.

    Raises:
        EngineFailed: tied embeddings, or a tensor missing, added, reshaped or of another type; all are named.
    """
    if tied(model_dir):
        raise EngineFailed(f"{model_dir} has tied embeddings", hint=TIED_HINT)
    layout = tensor_layout(model_dir)
    problems = [f"{name}: missing" for name in sorted(served.keys() - layout.keys())]
    problems += [f"{name}: not in the served model" for name in sorted(layout.keys() - served.keys())]
    for name in sorted(layout.keys() & served.keys()):
        if layout[name] != served[name]:
            problems.append(f"{name}: {_show(layout[name])}, expected {_show(served[name])}")
    if problems:
        shown = "; ".join(problems[:5]) + (f"; and {len(problems) - 5} more" if len(problems) > 5 else "")
        raise EngineFailed(
            f"{model_dir} does not fit the served model ({len(layout)} tensors of {len(served)}): {shown}",
            hint="the engine was not told anything; it still holds its old weights",
        )


def tied(model_dir: Path) -> bool:
    """Whether the folder's config says that input and output embeddings are one tensor."""
    try:
        config = json.loads((model_dir / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EngineFailed(f"{model_dir / 'config.json'} cannot be read: {error}") from error
    return bool(config.get("tie_word_embeddings", True))


def _show(tensor: Tensor) -> str:
    return f"{tensor.dtype}{list(tensor.shape)}"


def tensor_digests(model_dir: Path) -> dict[str, Json]:
    """Per tensor of the folder its `file`, `shape`, `dtype` and the `sha256` of its bytes."""
    found: dict[str, Json] = {}
    for file in sorted(model_dir.glob("*.safetensors")):
        with open(file, "rb") as raw:
            (length,) = struct.unpack("<Q", raw.read(8))
            entries = json.loads(raw.read(length))
            entries.pop("__metadata__", None)
            for name in entries:
                begin, end = entries[name]["data_offsets"]
                raw.seek(8 + length + begin)
                found[name] = {
                    "file": file.name,
                    "shape": entries[name]["shape"],
                    "dtype": entries[name]["dtype"],
                    "sha256": hashlib.sha256(raw.read(end - begin)).hexdigest(),
                }
    return dict(sorted(found.items()))
