"""The defect of tied embeddings, planted: the engine keeps its old head, and the scores show it."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mimo.backends.base import SamplerConfig
from mimo.backends.vllm import RunningServer, VllmSampler, start_server
from mimo.errors import EngineFailed
from tests.mimo.backends.conftest import VOCAB, rewrite, set_config, true_logprobs

pytestmark = pytest.mark.engine
SEQUENCE = random.Random(0).choices(range(3, VOCAB), k=48)


def tie(source: Path, dest: Path) -> Path:
    """A copy whose head is its embedding, as most small models are published."""
    shutil.copytree(source, dest)
    set_config(dest, tie_word_embeddings=True)

    def drop_head(tensors: dict[str, object]) -> dict[str, object]:
        del tensors["lm_head.weight"]
        return tensors

    rewrite(dest, drop_head)
    return dest


@pytest.fixture(scope="module")
def tied_server(
    make_policy: Callable[[int], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    root = tmp_path_factory.mktemp("tied")
    model_dir = tie(make_policy(0), root / "served")
    config = SamplerConfig(
        model_dir=model_dir, dtype="float32", max_model_len=256, log_file=root / "sampler.log"
    )
    with start_server(config) as server:
        yield server


async def difference(sampler: VllmSampler, model_dir: Path) -> float:
    """Mean absolute difference of the engine's scores from transformers on `model_dir`."""
    scores = await sampler.score(SEQUENCE, temperature=1.0)
    truth = true_logprobs(model_dir, SEQUENCE)
    return sum(abs(a - b) for a, b in zip(scores, truth, strict=True)) / len(truth)


def test_a_tied_engine_keeps_its_old_head_unless_one_is_written_out(
    tied_server: RunningServer, make_policy: Callable[[int], Path], tmp_path: Path
) -> None:
    new_tied = tie(make_policy(1), tmp_path / "tied")

    async def scene() -> None:
        sampler = VllmSampler(tied_server.url, 0)
        assert await difference(sampler, tied_server.model_dir) < 1e-5
        with pytest.raises(EngineFailed, match="has tied embeddings"):
            await sampler.update_weights(new_tied, 1)
        done = await sampler.replace_weights(new_tied, 1)
        assert done.prefix_cache_reset
        assert await difference(sampler, new_tied) > 0.01
        with pytest.raises(EngineFailed, match=r"lm_head\.weight: not in the served model"):
            await sampler.update_weights(make_policy(1), 2)
        await sampler.replace_weights(make_policy(1), 2)
        assert await difference(sampler, make_policy(1)) < 1e-5
        await sampler.close()

    asyncio.run(scene())
