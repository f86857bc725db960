"""A real vLLM server on a tiny random policy: its numbers against transformers, its weights, its end."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from mimo.backends import process_tree
from mimo.backends.base import Sampled, SamplerConfig, SamplingParams
from mimo.backends.vllm import RunningServer, VllmSampler, start_server
from mimo.errors import EngineFailed
from tests.mimo.backends.conftest import VOCAB, rewrite, true_logprobs

pytestmark = pytest.mark.engine
T = TypeVar("T")
PARAMS = SamplingParams(temperature=1.0, top_p=1.0, max_tokens=24, seed=5)
BOUND = 1e-5


def ids(seed: int, length: int) -> list[int]:
    return random.Random(seed).choices(range(3, VOCAB), k=length)


LOOP = asyncio.Runner()
"""One loop for the module: connections belong to it."""


def run(work: Coroutine[object, object, T]) -> T:
    return LOOP.run(work)


def mean_difference(a: tuple[float, ...], b: list[float]) -> float:
    return sum(abs(x - y) for x, y in zip(a, b, strict=True)) / len(b)


@pytest.fixture(scope="module")
def server(
    make_policy: Callable[[int], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    seen: list[float] = []
    log = tmp_path_factory.mktemp("log") / "sampler.log"
    config = SamplerConfig(model_dir=make_policy(0), dtype="float32", max_model_len=1024, log_file=log)
    running = start_server(config, progress=lambda seconds, line: seen.append(seconds))
    assert seen == sorted(seen)
    assert len(seen) > 3
    assert running.alive()
    assert running.guarded is not None
    tree = process_tree.marked(running.guarded._token)
    segments = process_tree.segments_of(tree) & {file.name for file in Path("/dev/shm").iterdir()}
    assert len(tree) >= 3
    assert any(name.startswith("psm_") for name in segments)
    yield running
    running.close()
    assert not running.alive()
    assert not running.guarded.tmp_dir.exists()
    assert not process_tree.marked(running.guarded._token)
    assert not [name for name in segments if (Path("/dev/shm") / name).exists()]


@pytest.fixture
def sampler(server: RunningServer, make_policy: Callable[[int], Path]) -> Iterator[VllmSampler]:
    """A sampler whose server holds the weights of seed 0."""
    found = VllmSampler(server.url, 0)
    run(found.update_weights(make_policy(0), 0))
    yield found
    run(found.close())


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_scores_are_those_of_transformers(
    sampler: VllmSampler, make_policy: Callable[[int], Path], temperature: float
) -> None:
    sequence = ids(1, 150)
    truth = true_logprobs(make_policy(0), sequence, temperature)
    assert mean_difference(run(sampler.score(sequence, temperature=temperature)), truth) < BOUND
    assert max(truth) - min(truth) > 5  # far from uniform: another temperature would show


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_sampled_logprobs_are_processed(
    sampler: VllmSampler, make_policy: Callable[[int], Path], temperature: float
) -> None:
    prompt = ids(2, 40)
    sampled = run(sampler.generate(prompt, replace(PARAMS, temperature=temperature), request_id="a"))
    truth = true_logprobs(make_policy(0), prompt + list(sampled.token_ids), temperature)[len(prompt) - 1 :]
    assert len(sampled.token_ids) == PARAMS.max_tokens
    assert mean_difference(sampled.logprobs, truth) < BOUND
    assert (sampled.finish_reason, sampled.weight_version) == ("length", 0)


def test_64_seeded_requests_at_once(sampler: VllmSampler) -> None:
    async def all_of_them() -> list[Sampled]:
        prompt = ids(3, 200)
        return await asyncio.gather(
            *(sampler.generate(prompt, replace(PARAMS, seed=i), request_id=f"r{i}") for i in range(64))
        )

    first, second = run(all_of_them()), run(all_of_them())
    assert len({sampled.token_ids for sampled in first}) == 64
    assert [s.token_ids for s in first] == [s.token_ids for s in second]


def test_the_stop_token_stays_in_the_output(sampler: VllmSampler) -> None:
    stops = tuple(range(VOCAB // 2, VOCAB))
    sampled = run(sampler.generate(ids(4, 10), replace(PARAMS, stop_token_ids=stops), request_id="s"))
    assert sampled.finish_reason == "stop"
    assert sampled.token_ids[-1] in stops
    assert not set(sampled.token_ids[:-1]) & set(stops)
    assert len(sampled.logprobs) == len(sampled.token_ids)


def test_an_update_reaches_scores_and_cached_prefixes(
    sampler: VllmSampler, make_policy: Callable[[int], Path]
) -> None:
    prompt = ids(5, 400)
    run(sampler.generate(prompt, PARAMS, request_id="old"))
    done = run(sampler.update_weights(make_policy(1), 1))
    assert (done.version, done.prefix_cache_reset, sampler.weight_version) == (1, True, 1)
    sampled = run(sampler.generate(prompt, PARAMS, request_id="new"))
    truth = true_logprobs(make_policy(1), prompt + list(sampled.token_ids))
    assert mean_difference(sampled.logprobs, truth[len(prompt) - 1 :]) < BOUND
    assert sampled.weight_version == 1
    assert mean_difference(run(sampler.score(prompt, temperature=1.0)), truth[: len(prompt) - 1]) < BOUND


@pytest.fixture
def incomplete(make_policy: Callable[[int], Path], tmp_path: Path) -> Path:
    """The policy of seed 1 without one of its tensors."""
    folder = tmp_path / "incomplete"
    shutil.copytree(make_policy(1), folder)

    def drop(tensors: dict[str, object]) -> dict[str, object]:
        del tensors["model.layers.1.mlp.down_proj.weight"]
        return tensors

    rewrite(folder, drop)
    return folder


def test_a_dropped_tensor_is_refused_before_the_engine_hears_of_it(
    sampler: VllmSampler, make_policy: Callable[[int], Path], incomplete: Path
) -> None:
    with pytest.raises(EngineFailed, match=r"model\.layers\.1\.mlp\.down_proj\.weight: missing"):
        run(sampler.update_weights(incomplete, 1))
    sequence = ids(6, 60)
    assert sampler.weight_version == 0
    truth = true_logprobs(make_policy(0), sequence)
    assert mean_difference(run(sampler.score(sequence, temperature=1.0)), truth) < BOUND


def test_a_dropped_tensor_that_is_forced_shows_in_the_scores(
    sampler: VllmSampler, make_policy: Callable[[int], Path], incomplete: Path
) -> None:
    sequence = ids(7, 60)
    run(sampler.replace_weights(incomplete, 1))
    truth = true_logprobs(make_policy(1), sequence)
    assert mean_difference(run(sampler.score(sequence, temperature=1.0)), truth) > 1e3 * BOUND


def test_another_version_than_the_servers_is_refused(sampler: VllmSampler) -> None:
    stranger = VllmSampler(sampler.url, 7)
    with pytest.raises(EngineFailed, match="holds weights 0, expected 7"):
        run(stranger.generate([5, 6], PARAMS, request_id="x"))
    run(stranger.close())


def test_an_update_behind_our_back_is_seen(sampler: VllmSampler, make_policy: Callable[[int], Path]) -> None:
    run(sampler.generate([5, 6], PARAMS, request_id="x"))
    other = VllmSampler(sampler.url, 0)
    run(other.update_weights(make_policy(1), 1))
    run(other.close())
    with pytest.raises(EngineFailed, match="sampled with weights"):
        run(sampler.generate([5, 6], PARAMS, request_id="y"))


def test_a_pause_lets_running_requests_end(sampler: VllmSampler) -> None:
    async def scene() -> tuple[Sampled, float]:
        running = asyncio.create_task(
            sampler.generate(ids(8, 20), replace(PARAMS, max_tokens=300), request_id="p")
        )
        await asyncio.sleep(0.2)
        await sampler.pause()
        assert running.done()
        waiting = asyncio.create_task(sampler.generate(ids(8, 20), PARAMS, request_id="q"))
        await asyncio.sleep(0.5)
        assert not waiting.done()
        await sampler.resume()
        began = time.monotonic()
        await waiting
        return running.result(), time.monotonic() - began

    sampled, seconds = run(scene())
    assert sampled.finish_reason in ("length", "stop")
    assert seconds < 10


def test_a_server_of_the_users_is_used_and_left_open(server: RunningServer) -> None:
    config = SamplerConfig(model_dir=server.model_dir, dtype="float32", max_model_len=1024, url=server.url)
    with start_server(config) as mine:
        assert mine.guarded is None
        assert mine.alive()
    assert server.alive()


def test_kill_9_of_the_server_is_an_engine_failure_and_leaves_nothing(
    server: RunningServer, sampler: VllmSampler
) -> None:
    """The last test of this module: it ends the server."""

    async def scene() -> None:
        request = asyncio.create_task(
            sampler.generate(ids(9, 20), replace(PARAMS, max_tokens=900), request_id="k")
        )
        await asyncio.sleep(0.3)
        assert server.guarded is not None
        os.kill(server.guarded.pid, signal.SIGKILL)
        with pytest.raises(EngineFailed, match="no answer after"):
            await request

    run(scene())
    assert not server.alive()
