"""A policy small enough to be computed by hand, with a trainer and an engine around it.

logits(next | previous) = head @ tanh(layer @ embedding[previous]); its weights live in a model folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from mimo.backends.base import LossSpec, Sampled, SamplingParams, TrainReport, WeightUpdate
from mimo.backends.weight_layout import tensor_digests
from mimo.types import Json

VOCABULARY, WIDTH = 50, 16
EMBEDDING, LAYER, HEAD = "model.embed_tokens.weight", "model.layers.0.up.weight", "lm_head.weight"
Weights = dict[str, np.ndarray]


def random_weights(seed: int = 0) -> Weights:
    draw = np.random.default_rng(seed)
    shapes = {EMBEDDING: (VOCABULARY, WIDTH), LAYER: (WIDTH, WIDTH), HEAD: (VOCABULARY, WIDTH)}
    return {name: draw.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}


def logprobs_of(weights: Weights, ids: Sequence[int]) -> tuple[float, ...]:
    hidden = np.tanh(weights[EMBEDDING][list(ids[:-1])] @ weights[LAYER].T)
    logits = (hidden @ weights[HEAD].T).astype(np.float64)
    logits -= np.log(np.exp(logits).sum(-1, keepdims=True))
    return tuple(float(row[token]) for row, token in zip(logits, ids[1:], strict=True))


class FolderTrainer:
    """`Trainer` whose step moves every weight a little."""

    def __init__(self, weights: Weights, *, leaves_out: str | None = None) -> None:
        self.weights = weights
        self.leaves_out = leaves_out

    def train_step(self, batch_dir: Path, loss: LossSpec, *, learning_rate: float) -> TrainReport:
        draw = np.random.default_rng(7)
        self.weights = {
            name: (value + learning_rate * draw.normal(size=value.shape)).astype(np.float32)
            for name, value in self.weights.items()
        }
        return TrainReport(step=1, metrics={}, trained_tokens=1, seconds=0.0)

    def score(self, sequences: Sequence[Sequence[int]], *, temperature: float) -> list[tuple[float, ...]]:
        return [logprobs_of(self.weights, ids) for ids in sequences]

    def export(self, model_dir: Path) -> Mapping[str, Json]:
        model_dir.mkdir(parents=True)
        kept = {name: value for name, value in self.weights.items() if name != self.leaves_out}
        save_file(kept, model_dir / "model.safetensors")
        (model_dir / "config.json").write_text(json.dumps({"tie_word_embeddings": False}))
        (model_dir / "tokenizer.json").write_text("{}")
        manifest: dict[str, Json] = {"tensors": tensor_digests(model_dir)}
        (model_dir / "manifest.json").write_text(json.dumps(manifest))
        return manifest

    def save(self, trainer_dir: Path) -> None:
        trainer_dir.mkdir(parents=True)
        save_file(self.weights, trainer_dir / "weights.safetensors")

    def load(self, trainer_dir: Path) -> None:
        self.weights = load_file(trainer_dir / "weights.safetensors")

    def close(self) -> None: ...


class FolderSampler:
    """`Sampler` that reads the folders it is given; `keeps` names a tensor it never replaces."""

    def __init__(
        self, weights: Weights, *, noise: float = 0.0, keeps: str | None = None, resets: bool = True
    ) -> None:
        self.weight_version = 0
        self.weights = weights
        self.noise = noise
        self.keeps = keeps
        self.resets = resets
        self.seen: list[int] = []
        self.asleep = False

    async def generate(
        self, prompt_ids: Sequence[int], params: SamplingParams, *, request_id: str
    ) -> Sampled:
        raise AssertionError("the canary samples nothing")

    async def score(self, token_ids: Sequence[int], *, temperature: float) -> tuple[float, ...]:
        assert not self.asleep
        exact = logprobs_of(self.weights, token_ids)
        return tuple(value + self.noise * (-1) ** i for i, value in enumerate(exact))

    async def update_weights(self, model_dir: Path, version: int) -> WeightUpdate:
        assert not self.asleep
        old = self.weights
        self.weights = load_file(model_dir / "model.safetensors")
        if self.keeps:
            self.weights[self.keeps] = old[self.keeps]
        self.weight_version = version
        self.seen.append(version)
        return WeightUpdate(version=version, seconds=0.0, prefix_cache_reset=self.resets)

    async def pause(self, *, sleep: bool = False) -> None:
        self.asleep = sleep

    async def resume(self, *, wake_up: bool = False) -> None:
        assert wake_up == self.asleep
        self.asleep = False

    async def is_sleeping(self) -> bool:
        return self.asleep

    async def close(self) -> None: ...
