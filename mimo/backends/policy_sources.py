"""Where a policy's weights come from: an installed package (GGUF), a folder, a hub, or a seed."""

from __future__ import annotations

import importlib.resources
import importlib.util
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from mimo.errors import MachineLacks, RecipeError
from mimo.types import Json

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
)
HUB_FILES = ("*.safetensors", "*.json", "*.txt", "*.jinja", "*.model", "*.py")
LONGEST_CONTEXT = 32768
TIED_MARK = "mimo_tied"
"""In a policy's config: head and embedding are one tensor while training (they are always two on disk)."""


@dataclass(frozen=True, slots=True)
class Source:
    """Weights found on this machine: a folder, and the GGUF file in it if that is what they are."""

    folder: Path
    gguf: str | None = None


def find_source(source: str) -> Source | None:
    """The weights that `source` names; None for `init:`, which has none.

    Raises:
        RecipeError: no such folder, or a package without exactly one GGUF file.
        MachineLacks: the package is not installed, or the hub cannot be reached.
    """
    kind, _, name = source.partition(":")
    if kind == "init":
        return None
    if kind == "path":
        return Source(_folder(name))
    if kind == "package":
        return _in_package(name)
    if kind == "hf":
        return Source(_from_hub(name))
    raise RecipeError(
        f"policy source {source!r} is not understood",
        hint="hf:ORG/NAME, path:DIR, package:MODULE or init:NAME",
    )


def _folder(name: str) -> Path:
    folder = Path(name).expanduser()
    if not (folder / "config.json").is_file():
        raise RecipeError(f"path:{name} is no model folder: it has no config.json")
    return folder


def _in_package(module: str) -> Source:
    spec = importlib.util.find_spec(module.partition(".")[0]) and importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise MachineLacks(
            f"the policy's package {module} is not installed",
            hint=f"pip install {module.replace('_', '-')} (make run installs it)",
        )
    folder = Path(spec.submodule_search_locations[0])
    found = sorted(folder.glob("*.gguf"))
    if len(found) != 1:
        raise RecipeError(f"package {module} holds {len(found)} *.gguf files, expected one")
    return Source(folder, found[0].name)


def _from_hub(name: str) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=list(HUB_FILES)))
    except (OSError, ValueError, RuntimeError) as error:
        raise MachineLacks(
            f"hf:{name} is not in the local cache and the hub cannot be reached: {error}",
            hint="run once with a connection, or use path:DIR with a copy of the model",
        ) from error


def load_model(source: Source) -> PreTrainedModel:
    """The model in float32 on the CPU; GGUF weights are de-quantised (else the model could not be saved)."""
    import transformers
    from transformers import AutoModelForCausalLM, GgufConfig

    transformers.utils.logging.disable_progress_bar()
    more: dict[str, object] = {}
    if source.gguf is not None:
        more = {"gguf_file": source.gguf, "quantization_config": GgufConfig(dequantize=True)}
    model = AutoModelForCausalLM.from_pretrained(
        source.folder, local_files_only=True, dtype="float32", low_cpu_mem_usage=True, **more
    )
    return cast("PreTrainedModel", model)


def servable_as_it_is(source: Source, dtype: str) -> bool:
    """Whether the weights need no change: safetensors of `dtype`, an explicit head, not quantised."""
    if source.gguf is not None:
        return False
    config = _config(source.folder)
    plain = not config.get("tie_word_embeddings", True) and "quantization_config" not in config
    if not plain or config.get("dtype", config.get("torch_dtype")) != dtype:
        return False
    return any(source.folder.glob("*.safetensors"))


def copy_weights(source: Source, dest: Path) -> bool:
    """Copy weights and configs unloaded (a model may be larger than memory); whether it was tied."""
    patterns = ("*.safetensors", "*.safetensors.index.json", "config.json", "generation_config.json", "*.py")
    for file in (file for pattern in patterns for file in source.folder.glob(pattern)):
        shutil.copyfile(file, dest / file.name)
    return bool(_config(source.folder).get(TIED_MARK, False))


def _config(folder: Path) -> dict[str, Json]:
    return cast("dict[str, Json]", json.loads((folder / "config.json").read_text(encoding="utf-8")))


def write_tokenizer(name: str | None, source: Source | None, dest: Path) -> None:
    """Put the tokenizer's files into `dest`: those named (`builtin:`, `path:`, `hf:`), else the policy's own.

    Raises:
        RecipeError: no such tokenizer.
    """
    if name is not None:
        _copy(_tokenizer_folder(name), dest, name)
    elif source is None:
        raise RecipeError("an init: policy needs policy.tokenizer", hint="builtin:small-2048")
    elif source.gguf is None:
        _copy(source.folder, dest, str(source.folder))
    else:
        from transformers import AutoTokenizer

        AutoTokenizer.from_pretrained(source.folder, gguf_file=source.gguf).save_pretrained(dest)


def _tokenizer_folder(name: str) -> Path:
    kind, _, rest = name.partition(":")
    if kind == "builtin":
        return Path(str(importlib.resources.files("recipes"))) / "tokenizers" / rest
    if kind == "path":
        return Path(rest).expanduser()
    if kind == "hf":
        return _from_hub(rest)
    raise RecipeError(f"tokenizer {name!r} is not understood", hint="builtin:NAME, path:DIR or hf:ORG/NAME")


def _copy(folder: Path, dest: Path, name: str) -> None:
    found = [folder / file for file in TOKENIZER_FILES if (folder / file).is_file()]
    if not found:
        raise RecipeError(f"tokenizer {name}: {folder} holds none of {', '.join(TOKENIZER_FILES[:2])}, …")
    for file in found:
        (dest / file.name).write_bytes(file.read_bytes())


def random_model(sizes: Mapping[str, Json], vocab_size: int) -> PreTrainedModel:
    """A Llama of these sizes (`hidden_size`, `layers`, `heads`, `kv_heads`, `mlp_size`) drawn from `seed`."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    needed = ("hidden_size", "layers", "heads", "kv_heads", "mlp_size", "seed")
    if missing := [key for key in needed if not isinstance(sizes.get(key), int)]:
        raise RecipeError(f"policy.init lacks {', '.join(missing)}")
    size = {key: int(cast("int", sizes[key])) for key in needed}
    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=size["hidden_size"],
        intermediate_size=size["mlp_size"],
        num_hidden_layers=size["layers"],
        num_attention_heads=size["heads"],
        num_key_value_heads=size["kv_heads"],
        max_position_embeddings=LONGEST_CONTEXT,
        tie_word_embeddings=False,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(size["seed"])
        return cast("PreTrainedModel", LlamaForCausalLM(config))
