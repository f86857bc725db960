"""A sampler that says what it is told: deterministic, in this process, a full member of the family."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from mimo.backends.base import Sampled, SamplingParams, WeightUpdate
from mimo.errors import EngineFailed
from mimo.types import FinishReason

Prompt = tuple[int, ...]
Script = Callable[[Prompt, SamplingParams], Sequence[int]] | Mapping[Prompt, Sequence[int]]
"""The reply to a prompt: a function, or a table (a prompt it lacks is an EngineFailed)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """One request as it came in."""

    prompt_ids: Prompt
    params: SamplingParams
    request_id: str
    weight_version: int


class ScriptedSampler:
    """A `Sampler` whose replies come from `script`; its logprobs depend on two tokens and the version alone.

    `generate` and `score` agree exactly, as a good engine's do; `score_error` is added to scores, to play a
    bad one. A reply ends at its first stop token (kept) or at `max_tokens` (finish reason `length`).
    """

    def __init__(
        self,
        script: Script,
        *,
        weight_version: int = 0,
        delay_s: float | Callable[[str], float] = 0.0,
        fail_requests: Collection[int] = (),
        fail_updates: Collection[int] = (),
        score_error: float = 0.0,
    ) -> None:
        """
        Args:
            delay_s: seconds before a reply, or a function of the request id.
            fail_requests: numbers of the requests (from 0) that raise EngineFailed.
            fail_updates: versions whose update raises EngineFailed and changes nothing.
        """
        self.weight_version = weight_version
        self.asked: list[Asked] = []
        """Every request, in order of arrival."""
        self.updates: list[tuple[Path, int]] = []
        """Every update that went through."""
        self.closed = False
        self.paused = self.asleep = False
        self._script = script
        self._delay_s = delay_s
        self._fail_requests = fail_requests
        self._fail_updates = fail_updates
        self._score_error = score_error

    async def generate(
        self, prompt_ids: Sequence[int], params: SamplingParams, *, request_id: str
    ) -> Sampled:
        """The script's reply, cut as an engine would cut it."""
        prompt, version, number = tuple(prompt_ids), self.weight_version, len(self.asked)
        self.asked.append(
            Asked(prompt_ids=prompt, params=params, request_id=request_id, weight_version=version)
        )
        delay = self._delay_s(request_id) if callable(self._delay_s) else self._delay_s
        await asyncio.sleep(delay)
        if number in self._fail_requests:
            raise EngineFailed(f"request {request_id} fails, as the script says")
        reply, reason = _cut(self._reply(prompt, params), params)
        ids = prompt + reply
        return Sampled(
            token_ids=reply,
            logprobs=_logprobs(ids, version, params.temperature)[len(prompt) - 1 :],
            finish_reason=reason,
            weight_version=version,
            cached_tokens=0,
            seconds=delay,
        )

    async def score(self, token_ids: Sequence[int], *, temperature: float) -> tuple[float, ...]:
        """The logprobs `generate` would have given, plus `score_error`."""
        found = _logprobs(tuple(token_ids), self.weight_version, temperature)
        return tuple(logprob + self._score_error for logprob in found)

    async def update_weights(self, model_dir: Path, version: int) -> WeightUpdate:
        """Take the new version; the folder is only written down."""
        if version in self._fail_updates:
            raise EngineFailed(f"the update to version {version} fails, as the script says")
        self.updates.append((model_dir, version))
        self.weight_version = version
        return WeightUpdate(version=version, seconds=0.0, prefix_cache_reset=True)

    async def pause(self, *, sleep: bool = False) -> None:
        """Nothing runs in the background: only written down."""
        self.paused, self.asleep = True, sleep

    async def resume(self, *, wake_up: bool = False) -> None:
        """See `pause`."""
        self.paused, self.asleep = False, self.asleep and not wake_up

    async def is_sleeping(self) -> bool:
        """Whether `pause` came last, or nobody woke it."""
        return self.paused or self.asleep

    async def close(self) -> None:
        """Write down that it was closed."""
        self.closed = True

    def _reply(self, prompt: Prompt, params: SamplingParams) -> tuple[int, ...]:
        if callable(self._script):
            return tuple(self._script(prompt, params))
        if prompt not in self._script:
            raise EngineFailed(f"the script has no reply to a prompt of {len(prompt)} tokens: {prompt[-8:]}")
        return tuple(self._script[prompt])


def _cut(reply: tuple[int, ...], params: SamplingParams) -> tuple[tuple[int, ...], FinishReason]:
    """The reply up to its first stop token or `max_tokens`, and why it ends there."""
    stops = (i + 1 for i, token in enumerate(reply) if token in params.stop_token_ids)
    end = next(stops, len(reply))
    if end > params.max_tokens:
        return reply[: params.max_tokens], "length"
    return reply[:end], "stop"


def _logprobs(ids: Prompt, version: int, temperature: float) -> tuple[float, ...]:
    """Of each token but the first, in [-2, 0) at temperature 1: a digest of version, last token, token."""
    found = []
    for before, token in pairwise(ids):
        digest = hashlib.sha256(f"{version}:{before}:{token}".encode()).digest()
        found.append(-(1 + int.from_bytes(digest[:4], "big")) / 2**31 / temperature)
    return tuple(found)
