"""Weight updates between the real engines: a DeepSpeed trainer and a vLLM server on the tiny model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from safetensors.torch import load_file, save_file

from mimo.backends.base import LossSpec, SamplerConfig
from mimo.backends.vllm import VllmSampler, start_server
from mimo.backends.weight_layout import tensor_digests
from mimo.errors import EngineFailed
from mimo.recipe.models import Canary as CanarySettings
from mimo.run_dir.files import write_json
from mimo.training.batch import write_batch
from mimo.training.canary import Canary, canary_sequences
from mimo.training.trainer import DeepSpeedTrainer, start_trainer
from mimo.training.weights import publish_and_update
from mimo.types import Json
from tests.mimo.training.conftest import VOCABULARY, make_sequences, trainer_config

pytestmark = [pytest.mark.engine, pytest.mark.slow]
SETTINGS = CanarySettings(
    sequences=4, tokens=48, float32_mean=1e-5, bfloat16_noise_multiple=3.0, perturbation=0.3
)


class Engines(NamedTuple):
    trainer: DeepSpeedTrainer
    url: str
    batch: Path


@pytest.fixture(scope="module")
def engines(tied_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    """The trainer on the tied model; the server on what the trainer exports."""
    root = tmp_path_factory.mktemp("engines")
    write_batch(root / "batch", make_sequences(), kind="rl", step=1)
    with start_trainer(trainer_config(tied_model, root / "trainer.log")) as trainer:
        trainer.export(root / "start")
        config = SamplerConfig(
            model_dir=root / "start",
            dtype="float32",
            max_model_len=256,
            kv_cache_gib=0.25,
            log_file=root / "vllm.log",
        )
        with start_server(config) as server:
            yield Engines(trainer, server.url, root / "batch")


class WithOldHead:
    """A trainer whose export has the head of `old`: what an engine with tied embeddings would serve."""

    def __init__(self, trainer: DeepSpeedTrainer, old: Path) -> None:
        self._trainer = trainer
        self._old = old
        self.score = trainer.score

    def export(self, model_dir: Path) -> Mapping[str, Json]:
        manifest = dict(self._trainer.export(model_dir))
        tensors = load_file(model_dir / "model.safetensors")
        tensors["lm_head.weight"] = load_file(self._old / "model.safetensors")["lm_head.weight"]
        save_file(tensors, model_dir / "model.safetensors", metadata={"format": "pt"})
        manifest["tensors"] = tensor_digests(model_dir)
        write_json(model_dir / "manifest.json", manifest)
        return manifest


def test_updates_are_confirmed_and_an_old_head_is_caught(engines: Engines, tmp_path: Path) -> None:
    canary = Canary(canary_sequences(VOCABULARY, SETTINGS, seed=0), SETTINGS, exact=True, seed=0)
    wide = replace(LossSpec(kind="rl"), positive_high=1e9, negative_high=1e9)

    async def updates() -> None:
        sampler = VllmSampler(engines.url, 0)
        first = await publish_and_update(
            engines.trainer, sampler, tmp_path / "1", 1, canary, engine_started=True
        )
        assert first.agreement.mean < 1e-5
        engines.trainer.train_step(engines.batch, wide, learning_rate=1e-3)
        second = await publish_and_update(
            engines.trainer, sampler, tmp_path / "2", 2, canary, previous=first.manifest
        )
        assert second.agreement.mean < 1e-5
        assert second.changed == len(second.manifest["tensors"])  # type: ignore[arg-type]
        engines.trainer.train_step(engines.batch, wide, learning_rate=1e-3)
        stale = WithOldHead(engines.trainer, tmp_path / "2")
        with pytest.raises(EngineFailed, match="differ after the update to weights 3"):
            await publish_and_update(stale, sampler, tmp_path / "3", 3, canary)  # type: ignore[arg-type]
        third = await publish_and_update(engines.trainer, sampler, tmp_path / "4", 4, canary)
        assert third.agreement.mean < 1e-5
        await sampler.close()

    asyncio.run(updates())
