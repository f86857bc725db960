"""A tiny Llama on disk and batches for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from mimo.backends.base import TrainerConfig
from mimo.training.batch import TrainSequence
from mimo.types import Json

VOCABULARY = 512
OPTIMIZER: Mapping[str, Json] = {
    "name": "adamw",
    "learning_rate": 1e-3,
    "weight_decay": 0.01,
    "momentum": 0.95,
    "nesterov": True,
    "betas": [0.9, 0.95],
    "eps": 1e-8,
}


def write_model(folder: Path, *, tied: bool, layers: int = 2) -> Path:
    """A random Llama (hidden 64, vocabulary 512) with a word-level tokenizer."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=512,
        tie_word_embeddings=tied,
        initializer_range=0.1,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(VOCABULARY)}, unk_token="w3"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=words, bos_token="w1", eos_token="w2", pad_token="w0", unk_token="w3"
    ).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tied_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("tied") / "model", tied=True)


@pytest.fixture(scope="session")
def untied_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("untied") / "model", tied=False)


def make_sequences(
    *, groups: int = 3, size: int = 4, prefix: int = 20, seed: int = 0, alone: int = 2
) -> list[TrainSequence]:
    """Groups with a shared prefix, and some sequences alone; logprobs near those of a uniform policy."""
    draw = np.random.default_rng(seed)
    made = []
    for group in range(groups + alone):
        shared = draw.integers(3, VOCABULARY, prefix)
        for k in range(size if group < groups else 1):
            own = draw.integers(3, VOCABULARY, int(draw.integers(2, 20)))
            ids = np.concatenate([shared, own]).astype(np.int32)
            mask = np.arange(len(ids)) >= prefix
            if len(own) > 6:
                mask[prefix + 3 : prefix + 5] = False
            logprobs = np.where(mask, draw.normal(-6.2, 0.3, len(ids)), 0)
            advantages = np.where(mask, 1.0 if k % 2 else -0.7, 0)
            made.append(
                TrainSequence(
                    rollout_id=f"g{group}-r{k}",
                    token_ids=ids,
                    loss_mask=mask,
                    sampler_logprobs=logprobs.astype(np.float32),
                    advantages=advantages.astype(np.float32),
                    loss_weight=0.01 * (1 + group),
                    prefix_group=f"g{group}" if group < groups else None,
                    prefix_len=prefix if group < groups else 0,
                )
            )
    return made


def trainer_config(model_dir: Path, log_file: Path, **changes: object) -> TrainerConfig:
    """A float32 trainer on one thread (bit-equal from run to run)."""
    settings: dict[str, object] = {
        "model_dir": model_dir,
        "compute_dtype": "float32",
        "optimizer": OPTIMIZER,
        "grad_clip": 1.0,
        "seed": 0,
        "threads": 1,
        "micro_batch_tokens": 96,
        "log_file": log_file,
        "start_timeout_s": 120.0,
    }
    return TrainerConfig(**(settings | changes))  # type: ignore[arg-type]
