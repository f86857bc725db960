"""An expert as a sampler: its scripted turns go through the same loop, box and verifier as a policy's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mimo.backends.base import Sampled, SamplingParams, WeightUpdate
from mimo.errors import StageFailed
from mimo.harnesses.base import ExpertTurn
from mimo.harnesses.renderer import Renderer
from mimo.rollouts.token_log import NOT_SAMPLED


class ExpertSampler:
    """Gives one rollout's turns, in order; they carry no logprobs, as no policy sampled them."""

    weight_version = NOT_SAMPLED

    def __init__(self, turns: Sequence[ExpertTurn], renderer: Renderer) -> None:
        self._turns = list(turns)
        self._renderer = renderer

    async def generate(
        self,
        prompt_ids: Sequence[int],  # noqa: ARG002 - the contract's signature
        params: SamplingParams,  # noqa: ARG002
        *,
        request_id: str,
    ) -> Sampled:
        """The next scripted turn, with its stop token."""
        if not self._turns:
            raise ValueError(f"{request_id}: the expert's script is over but the rollout goes on")
        ids = self._renderer.assistant_ids(self._turns.pop(0).text)
        return Sampled(
            token_ids=tuple(ids),
            logprobs=(0.0,) * len(ids),
            finish_reason="stop",
            weight_version=NOT_SAMPLED,
        )

    async def score(self, token_ids: Sequence[int], *, temperature: float) -> tuple[float, ...]:
        """An expert has no probabilities."""
        raise StageFailed(f"an expert cannot score {len(token_ids)} tokens at temperature {temperature}")

    async def update_weights(self, model_dir: Path, version: int) -> WeightUpdate:
        """An expert has no weights."""
        raise StageFailed(f"an expert has no weights to replace by {model_dir} (version {version})")

    async def close(self) -> None:
        """Nothing to close."""
