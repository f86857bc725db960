"""The scripted sampler behaves as an engine would: cuts, versions, failures, agreeing scores."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from mimo.backends.base import Sampled, Sampler, SamplingParams
from mimo.backends.scripted import ScriptedSampler
from mimo.errors import EngineFailed

T = TypeVar("T")
PARAMS = SamplingParams(temperature=1.0, top_p=1.0, max_tokens=5, stop_token_ids=(2,))


def run(work: Coroutine[object, object, T]) -> T:
    return asyncio.run(work)


def ask(sampler: ScriptedSampler, prompt: tuple[int, ...], params: SamplingParams = PARAMS) -> Sampled:
    return run(sampler.generate(prompt, params, request_id="r"))


@pytest.mark.parametrize(
    ("reply", "expected", "reason"),
    [
        ((7, 8, 2), (7, 8, 2), "stop"),
        ((7, 2, 9), (7, 2), "stop"),
        ((7, 8), (7, 8), "stop"),
        ((7, 8, 9, 10, 2), (7, 8, 9, 10, 2), "stop"),
        ((7, 8, 9, 10, 11, 2), (7, 8, 9, 10, 11), "length"),
    ],
)
def test_a_reply_is_cut_as_an_engine_cuts(
    reply: tuple[int, ...], expected: tuple[int, ...], reason: str
) -> None:
    sampled = ask(ScriptedSampler({(1,): reply}), (1,))
    assert (sampled.token_ids, sampled.finish_reason) == (expected, reason)
    assert len(sampled.logprobs) == len(expected)


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_scores_are_the_logprobs_it_sampled_with(temperature: float) -> None:
    sampler: Sampler = ScriptedSampler(lambda prompt, params: (prompt[-1] + 1, 2))
    params = replace(PARAMS, temperature=temperature)
    sampled = run(sampler.generate((4, 5), params, request_id="r"))
    scores = run(sampler.score((4, 5, *sampled.token_ids), temperature=temperature))
    assert scores[1:] == sampled.logprobs
    assert all(-2 / temperature <= logprob < 0 for logprob in scores)


def test_an_update_changes_the_version_and_the_logprobs() -> None:
    sampler = ScriptedSampler({(1,): (7, 2)}, fail_updates={2})
    old = ask(sampler, (1,))
    update = run(sampler.update_weights(Path("/weights"), 1))
    new = ask(sampler, (1,))
    assert (old.weight_version, new.weight_version, update.prefix_cache_reset) == (0, 1, True)
    assert old.logprobs != new.logprobs
    with pytest.raises(EngineFailed, match="version 2"):
        run(sampler.update_weights(Path("/weights"), 2))
    assert (sampler.weight_version, sampler.updates) == (1, [(Path("/weights"), 1)])


def test_it_fails_where_it_is_told_to() -> None:
    sampler = ScriptedSampler({(1,): (2,)}, fail_requests={1})
    ask(sampler, (1,))
    with pytest.raises(EngineFailed, match="as the script says"):
        ask(sampler, (1,))
    with pytest.raises(EngineFailed, match="no reply"):
        ask(sampler, (9,))
    assert [asked.prompt_ids for asked in sampler.asked] == [(1,), (1,), (9,)]


def test_a_slow_reply_does_not_hold_up_the_others() -> None:
    sampler = ScriptedSampler(
        lambda prompt, params: (2,), delay_s=lambda request_id: 0.5 if request_id == "slow" else 0.0
    )

    async def scene() -> list[str]:
        order: list[str] = []

        async def one(name: str) -> None:
            await sampler.generate((1,), PARAMS, request_id=name)
            order.append(name)

        await asyncio.gather(one("slow"), one("a"), one("b"))
        return order

    assert run(scene()) == ["a", "b", "slow"]


def test_a_bad_engine_can_be_played() -> None:
    good, bad = ScriptedSampler({}), ScriptedSampler({}, score_error=0.1)
    pairs = zip(
        run(good.score((1, 2, 3), temperature=1.0)), run(bad.score((1, 2, 3), temperature=1.0)), strict=True
    )
    assert [b - a for a, b in pairs] == pytest.approx([0.1, 0.1])
