"""A tiny random policy on disk, and its forward pass in transformers as the truth to compare with."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from mimo.backends.policies import materialise_policy

SIZES = {"hidden_size": 128, "layers": 3, "heads": 4, "kv_heads": 2, "mlp_size": 384}
VOCAB = 2048


def write_tokenizer(folder: Path) -> Path:
    """A byte-level tokenizer filled up to 2,048 ids."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = ["<pad>", "<bos>", "<eos>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    words += [f"<extra-{i}>" for i in range(VOCAB - len(words))]
    tokenizer = Tokenizer(models.BPE(vocab={word: i for i, word in enumerate(words)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = {"pad_token": "<pad>", "bos_token": "<bos>", "eos_token": "<eos>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tokenizer_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tokenizer(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="session")
def make_policy(tokenizer_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """`make_policy(seed)`: the folder of a random policy whose distributions are far from uniform."""
    root = tmp_path_factory.mktemp("policies")

    def make(seed: int) -> Path:
        folder = root / f"seed-{seed}"
        if not folder.exists():
            init = {**SIZES, "seed": seed}
            materialise_policy(
                "init:tiny",
                folder,
                tokenizer=f"path:{tokenizer_dir}",
                init=init,
                keep_layers=None,
                dtype="float32",
            )
            rewrite(folder, lambda tensors: {name: t * 6 if t.ndim > 1 else t for name, t in tensors.items()})
        return folder

    return make


def rewrite(folder: Path, change: Callable[[dict[str, object]], dict[str, object]]) -> None:
    """Replace the folder's tensors by `change(tensors)`."""
    from safetensors.torch import load_file, save_file

    file = folder / "model.safetensors"
    save_file(change(load_file(file)), file, metadata={"format": "pt"})


def set_config(folder: Path, **values: object) -> None:
    """Change keys of the folder's config.json."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def true_logprobs(folder: Path, token_ids: Sequence[int], temperature: float = 1.0) -> list[float]:
    """transformers, float32: of each token but the first."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    ids = torch.tensor([list(token_ids)])
    with torch.no_grad():
        logits = model(ids).logits[0, :-1].double() / temperature
    return torch.log_softmax(logits, -1).gather(1, ids[0, 1:, None])[:, 0].tolist()
