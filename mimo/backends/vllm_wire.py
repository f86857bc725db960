"""What vLLM 0.32 and 0.33 put on the wire of `/inference/v1/generate`, as far as we read it."""

from __future__ import annotations

import math
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from mimo.backends.base import SamplingParams
from mimo.types import Json


class Wire(BaseModel):
    """Fields we do not know are left alone: a newer server may add some."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class TokenLogprob(Wire):
    """A sampled token and its logprob."""

    token_id: int
    logprob: float


class Logprobs(Wire):
    """One entry per generated token."""

    content: list[TokenLogprob] = []


class VersionSpan(Wire):
    """Output tokens [start, end) made by the weights of one version."""

    version: str


class Choice(Wire):
    """The continuation."""

    finish_reason: str | None
    token_ids: list[int]
    logprobs: Logprobs | None = None
    weight_versions: list[VersionSpan] | None = None


class PromptDetails(Wire):
    """Prompt tokens that the prefix cache had."""

    cached_tokens: int | None = None


class Usage(Wire):
    """Token counts."""

    prompt_tokens_details: PromptDetails | None = None


class PromptLogprob(Wire):
    """A candidate at a position of the prompt."""

    logprob: float


class GenerateAnswer(Wire):
    """One answer; `prompt_logprobs` has a row per prompt token (the first is None) when it was asked for."""

    choices: list[Choice]
    usage: Usage | None = None
    prompt_logprobs: list[dict[int, PromptLogprob] | None] | None = None

    def cached_tokens(self) -> int | None:
        """Prompt tokens found in the prefix cache; None when the server does not say."""
        details = self.usage.prompt_tokens_details if self.usage else None
        return details.cached_tokens if details else None


def sampling_body(params: SamplingParams) -> dict[str, Json]:
    """vLLM's sampling parameters, with everything said that could change the distribution."""
    return {
        "temperature": params.temperature,
        "top_p": params.top_p,
        "top_k": 0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "watermarking": False,
        "max_tokens": params.max_tokens,
        "stop_token_ids": list(params.stop_token_ids),
        "seed": params.seed,
        "logprobs": 0,
        "detokenize": False,
    }


def scoring_body(*, whole_vocabulary: bool) -> dict[str, Json]:
    """Sampling parameters of a request that only wants the prompt's logprobs."""
    return {
        "temperature": 1.0,
        "max_tokens": 1,
        "prompt_logprobs": -1 if whole_vocabulary else 0,
        "watermarking": False,
        "detokenize": False,
    }


def at_temperature(row: Mapping[int, PromptLogprob], token: int, temperature: float) -> float:
    """The token's logprob at `temperature`, from the whole vocabulary's at 1."""
    if temperature == 1.0:
        return row[token].logprob
    scaled = [entry.logprob / temperature for entry in row.values()]
    top = max(scaled)
    return (
        row[token].logprob / temperature
        - top
        - math.log(math.fsum(math.exp(value - top) for value in scaled))
    )
