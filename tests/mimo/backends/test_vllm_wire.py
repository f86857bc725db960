"""Rescaling a vocabulary's logprobs is exact; a request says everything that shapes its distribution."""

from __future__ import annotations

import pytest
import torch

from mimo.backends.base import SamplingParams
from mimo.backends.vllm_wire import GenerateAnswer, PromptLogprob, at_temperature, sampling_body


@pytest.mark.parametrize("temperature", [0.3, 0.6, 1.0, 1.7])
def test_rescaled_logprobs_are_those_of_the_scaled_logits(temperature: float) -> None:
    logits = torch.randn(50, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 4
    row = {i: PromptLogprob(logprob=value) for i, value in enumerate(torch.log_softmax(logits, 0).tolist())}
    truth = torch.log_softmax(logits / temperature, 0).tolist()
    assert [at_temperature(row, i, temperature) for i in range(50)] == pytest.approx(truth, abs=1e-12)


def test_a_request_leaves_nothing_to_the_servers_defaults() -> None:
    body = sampling_body(
        SamplingParams(temperature=0.7, top_p=0.9, max_tokens=3, stop_token_ids=(2,), seed=4)
    )
    assert (body["temperature"], body["top_p"], body["max_tokens"], body["seed"]) == (0.7, 0.9, 3, 4)
    assert body["stop_token_ids"] == [2]
    assert body["watermarking"] is False
    assert (body["top_k"], body["min_p"], body["repetition_penalty"], body["logprobs"]) == (0, 0.0, 1.0, 0)


def test_an_answer_is_read_and_unknown_fields_are_left_alone() -> None:
    answer = GenerateAnswer.model_validate(
        {
            "choices": [
                {
                    "finish_reason": "stop",
                    "token_ids": [7],
                    "logprobs": {"content": [{"token_id": 7, "logprob": -0.5, "rank": 1}]},
                    "weight_versions": [{"version": "3", "start": 0, "end": 1}],
                }
            ],
            "usage": {"prompt_tokens_details": {"cached_tokens": 128}},
            "prompt_logprobs": [None, {"9": {"logprob": -1.5, "rank": 4, "decoded_token": None}}],
            "new_in_0_34": {},
        }
    )
    assert answer.cached_tokens() == 128
    assert answer.choices[0].weight_versions is not None
    assert answer.choices[0].weight_versions[0].version == "3"
    assert answer.prompt_logprobs is not None
    assert answer.prompt_logprobs[1] == {9: PromptLogprob(logprob=-1.5)}
