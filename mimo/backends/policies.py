"""A policy as a folder that both engines read: safetensors with a head, config, tokenizer, manifest.

The head is always written and `tie_word_embeddings` is false, because vLLM keeps the old head of a tied model
when its weights are replaced; `mimo_tied` in the config lets the trainer tie the two again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from mimo.backends.policy_sources import (
    TIED_MARK,
    TOKENIZER_FILES,
    copy_weights,
    find_source,
    load_model,
    random_model,
    servable_as_it_is,
    write_tokenizer,
)
from mimo.backends.weight_layout import tensor_digests
from mimo.errors import RecipeError
from mimo.types import SCHEMA, Json

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = [
    "MANIFEST",
    "TIED_MARK",
    "evenly_spaced",
    "layers_kept",
    "materialise_policy",
    "tokenizer_sha256",
    "tokenizer_size",
]

MANIFEST = "manifest.json"


def materialise_policy(
    source: str,
    dest: Path,
    *,
    tokenizer: str | None,
    init: Mapping[str, Json] | None,
    keep_layers: int | None,
    drop_layers: Sequence[int] | None = None,
    dtype: str,
) -> dict[str, Json]:
    """The manifest of the policy in `dest`, written whole if it is not there yet (two writers may race).

    Args:
        source: `package:MODULE` (GGUF), `path:DIR`, `hf:ORG/NAME` or `init:NAME` (random, sizes in `init`).
        tokenizer: `builtin:NAME`, `path:DIR`, `hf:ORG/NAME`; None = the source's own.
        keep_layers: that many evenly spaced layers, first and last included; None = all.
        drop_layers: indices from 0 of the layers to leave out, instead of `keep_layers`; None = none.
        dtype: of the files, `float32` or `bfloat16`.

    Returns:
        `schema, source, dtype, digest, parameters, num_layers, vocab_size, tied, tokenizer_sha256`,
        `tensors` (name to file, shape, dtype, sha256) and `files` (name, size).

    Raises:
        RecipeError: what is named does not exist or does not fit together.
        MachineLacks: a package is not installed, a hub cannot be reached.
    """
    if (dest / MANIFEST).is_file():
        return _read_manifest(dest)
    partial = dest.with_name(f".{dest.name}.{os.getpid()}.part")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        found = find_source(source)
        write_tokenizer(tokenizer, found, partial)
        whole = keep_layers is None and not drop_layers
        if found is not None and whole and servable_as_it_is(found, dtype):
            tied = copy_weights(found, partial)
        else:
            model = load_model(found) if found else random_model(init or {}, tokenizer_size(partial))
            if not whole:
                _shorten(model, keep_layers, drop_layers or ())
            _name_special_tokens(model, partial, overwrite=found is None)
            tied = _untie(model)
            _write_model(model, partial, dtype)
        manifest = _manifest(partial, source, dtype, tied=tied)
        (partial / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        return _publish(partial, dest, manifest)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def tokenizer_sha256(model_dir: Path) -> str:
    """Digest of the folder's tokenizer files, names included: equal digests encode and render alike."""
    digest = hashlib.sha256()
    for name in TOKENIZER_FILES:
        if (model_dir / name).is_file():
            digest.update(f"{name}\0{_sha256(model_dir / name)}\n".encode())
    return digest.hexdigest()


def tokenizer_size(model_dir: Path) -> int:
    """How many token ids the folder's tokenizer has."""
    from transformers import AutoTokenizer

    return len(AutoTokenizer.from_pretrained(model_dir, local_files_only=True))


def _read_manifest(folder: Path) -> dict[str, Json]:
    return cast("dict[str, Json]", json.loads((folder / MANIFEST).read_text(encoding="utf-8")))


def _publish(partial: Path, dest: Path, manifest: dict[str, Json]) -> dict[str, Json]:
    """Rename the finished folder into place; if another writer was first, its folder counts."""
    try:
        partial.rename(dest)
    except OSError:
        if not (dest / MANIFEST).is_file():
            raise
        return _read_manifest(dest)
    return manifest


def _shorten(model: PreTrainedModel, keep: int | None, drop: Sequence[int]) -> None:
    """Drop all but `keep` evenly spaced decoder layers, or those in `drop`, in place."""
    import torch

    layers = model.get_decoder().layers
    kept = layers_kept(len(layers), keep, drop)
    model.get_decoder().layers = torch.nn.ModuleList([layers[i] for i in kept])
    model.config.num_hidden_layers = len(kept)
    if getattr(model.config, "layer_types", None):
        model.config.layer_types = [model.config.layer_types[i] for i in kept]


def layers_kept(total: int, keep: int | None, drop: Sequence[int]) -> list[int]:
    """Indices of the layers that a policy of `total` layers keeps, ascending.

    Raises:
        RecipeError: the policy has no such layer or number of layers, or none would be left.
    """
    if keep is not None:
        if not 1 <= keep <= total:
            raise RecipeError(f"policy.keep_layers is {keep}; the policy has {total} layers")
        return evenly_spaced(total, keep)
    if absent := sorted(place for place in drop if not 0 <= place < total):
        raise RecipeError(
            f"policy.drop_layers names layer {absent[0]}; the policy has layers 0 to {total - 1}"
        )
    kept = sorted(set(range(total)) - set(drop))
    if not kept:
        raise RecipeError(
            f"policy.drop_layers names all {total} layers of the policy; one at least must stay"
        )
    return kept


def evenly_spaced(total: int, keep: int) -> list[int]:
    """`keep` of the indices 0 to total - 1, ascending, the first and the last among them (one: the first)."""
    if keep == 1:
        return [0]
    return [round(i * (total - 1) / (keep - 1)) for i in range(keep)]


def _name_special_tokens(model: PreTrainedModel, folder: Path, *, overwrite: bool) -> None:
    """Check that the tokenizer fits the embedding; give a random model the tokenizer's special ids."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    rows = model.get_input_embeddings().weight.shape[0]
    if len(tokenizer) > rows:
        raise RecipeError(f"the tokenizer has {len(tokenizer)} ids, the policy's embedding {rows} rows")
    for role in ("bos", "eos", "pad"):
        token_id = getattr(tokenizer, f"{role}_token_id")
        if overwrite:
            setattr(model.config, f"{role}_token_id", token_id)
            setattr(model.generation_config, f"{role}_token_id", token_id)


def _untie(model: PreTrainedModel) -> bool:
    """Give the head a tensor of its own; whether it shared the embedding's before."""
    import torch

    head, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    tied = head.weight is embedding.weight
    if tied:
        head.weight = torch.nn.Parameter(embedding.weight.detach().clone())
    model.config.tie_word_embeddings = False
    setattr(model.config, TIED_MARK, tied)
    return tied


def _write_model(model: PreTrainedModel, folder: Path, dtype: str) -> None:
    """Weights and configs; a quantised source leaves no trace of that in the config."""
    import torch
    import transformers

    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    transformers.utils.logging.disable_progress_bar()
    model.to(getattr(torch, dtype)).save_pretrained(folder)
    for file in folder.glob("*.safetensors"):
        file.chmod(0o644)  # written as 600


def _manifest(folder: Path, source: str, dtype: str, *, tied: bool) -> dict[str, Json]:
    tensors = tensor_digests(folder)
    if "lm_head.weight" not in tensors:
        raise RecipeError(f"{source} saved no lm_head.weight; only causal language models are policies")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return {
        "schema": SCHEMA,
        "source": source,
        "dtype": dtype,
        "digest": hashlib.sha256(json.dumps(tensors, sort_keys=True).encode()).hexdigest(),
        "parameters": sum(_count(facts) for facts in tensors.values()),
        "num_layers": config["num_hidden_layers"],
        "vocab_size": config["vocab_size"],
        "tied": tied,
        "tokenizer_sha256": tokenizer_sha256(folder),
        "tensors": tensors,
        "files": [{"name": path.name, "size": path.stat().st_size} for path in sorted(folder.iterdir())],
    }


def _count(facts: Json) -> int:
    size = 1
    for length in cast("list[int]", cast("dict[str, Json]", facts)["shape"]):
        size *= length
    return size


def _sha256(path: Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
