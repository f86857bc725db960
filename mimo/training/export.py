"""A servable folder of the policy: safetensors with an explicit head, config, tokenizer, and a manifest.

The head is always written and `tie_word_embeddings` is false: an engine that reloads tied weights keeps its
old head (MACHINE trap). `mimo_tied` in the config lets the next trainer tie them again. The manifest has a
digest per tensor, so that "did training change anything" has an answer.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

import torch
from safetensors.torch import save_file

from mimo.backends.policies import TIED_MARK
from mimo.run_dir.files import write_json
from mimo.training.engine import Engine
from mimo.training.manifest import MANIFEST
from mimo.types import SCHEMA, Json

SHARD_BYTES = 4 * 1024**3
_HEAD = "lm_head.weight"


def export_model(engine: Engine, model_dir: Path) -> dict[str, Json]:
    """Write the folder whole or not at all, replacing one that is there; its manifest, on rank 0."""
    partial = model_dir.with_name(f".{model_dir.name}.{os.getpid()}.part")
    writes = engine.rank == 0
    if writes:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
    tensors: dict[str, Json] = {}
    shards: list[list[str]] = []
    for shard in _shards(_tensors(engine), _dtype(engine)):
        name = f"model-{len(shards) + 1:05d}.safetensors"
        shards.append(list(shard))
        if writes:
            save_file(shard, partial / name, metadata={"format": "pt"})
            tensors |= {key: _facts(tensor, name) for key, tensor in shard.items()}
    if not writes:
        return {}
    _write_index(partial, shards, tensors)
    _copy_companions(engine, partial)
    manifest = _manifest(partial, tensors, engine.config.compute_dtype)
    write_json(partial / MANIFEST, manifest)
    _swap(partial, model_dir)
    return manifest


def _tensors(engine: Engine) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor of the model by its name on disk, whole and on the CPU; the head also when it is tied."""
    seen: dict[int, torch.Tensor] = {}
    for name, parameter in engine.model.named_parameters():
        seen[id(parameter)] = tensor = engine.full_parameter(parameter)
        yield name, tensor
    names = {name for name, _ in engine.model.named_parameters()}
    head = engine.model.get_output_embeddings().weight
    if _HEAD not in names:
        yield _HEAD, seen[id(head)]
    for name, buffer in engine.model.state_dict().items():
        if name not in names and name != _HEAD and not name.endswith("embed_tokens.weight"):
            yield name, buffer.detach().to("cpu")


def _shards(
    tensors: Iterator[tuple[str, torch.Tensor]], dtype: torch.dtype
) -> Iterator[dict[str, torch.Tensor]]:
    shard: dict[str, torch.Tensor] = {}
    size = 0
    for name, tensor in tensors:
        kept = tensor.to(dtype, copy=True) if tensor.is_floating_point() else tensor.clone()
        if shard and size + kept.nbytes > SHARD_BYTES:
            yield shard
            shard, size = {}, 0
        shard[name] = kept.contiguous()
        size += kept.nbytes
    yield shard


def _facts(tensor: torch.Tensor, file: str) -> Json:
    raw = tensor.view(torch.uint8).numpy() if tensor.ndim else tensor.reshape(1).view(torch.uint8).numpy()
    return {
        "file": file,
        "shape": list(tensor.shape),
        "dtype": _SAFETENSORS_NAMES.get(tensor.dtype, str(tensor.dtype)),
        "sha256": hashlib.sha256(raw.data).hexdigest(),
    }


_SAFETENSORS_NAMES = {
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.bool: "BOOL",
    torch.uint8: "U8",
}


def _dtype(engine: Engine) -> torch.dtype:
    return torch.bfloat16 if engine.config.compute_dtype == "bfloat16" else torch.float32


def _write_index(folder: Path, shards: list[list[str]], tensors: Mapping[str, Json]) -> None:
    """One shard is `model.safetensors`; several have the index that transformers and vLLM read."""
    if len(shards) == 1:
        (folder / "model-00001.safetensors").rename(folder / "model.safetensors")
        for facts in tensors.values():
            cast("dict[str, Json]", facts)["file"] = "model.safetensors"
        return
    weight_map: dict[str, Json] = {
        name: f"model-{i:05d}.safetensors" for i, names in enumerate(shards, 1) for name in names
    }
    write_json(folder / "model.safetensors.index.json", {"metadata": {}, "weight_map": weight_map})


def _copy_companions(engine: Engine, folder: Path) -> None:
    """Tokenizer, templates and generation config as they are; the config with the head untied."""
    source = engine.config.model_dir
    for path in sorted(source.iterdir()):
        if path.is_file() and not path.name.startswith(".") and _is_companion(path.name):
            shutil.copyfile(path, folder / path.name)
    config = json.loads((source / "config.json").read_bytes())
    tied = engine.model.get_output_embeddings().weight is engine.model.get_input_embeddings().weight
    config |= {
        "tie_word_embeddings": False,
        TIED_MARK: tied,
        "dtype": engine.config.compute_dtype,
        "torch_dtype": engine.config.compute_dtype,
    }
    write_json(folder / "config.json", config)


def _is_companion(name: str) -> bool:
    weights = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".index.json")
    return name not in (MANIFEST, "config.json") and not name.endswith(weights)


def _manifest(folder: Path, tensors: dict[str, Json], dtype: str) -> dict[str, Json]:
    files: list[Json] = [
        {"name": path.name, "size": path.stat().st_size} for path in sorted(folder.iterdir())
    ]
    digest = hashlib.sha256(json.dumps(tensors, sort_keys=True).encode()).hexdigest()
    return {"schema": SCHEMA, "dtype": dtype, "digest": digest, "tensors": tensors, "files": files}


def _swap(partial: Path, target: Path) -> None:
    """Put the finished folder in its place; one that was there is removed after."""
    old = target.with_name(f".{target.name}.{os.getpid()}.old")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.rename(old)
    partial.rename(target)
    shutil.rmtree(old, ignore_errors=True)
