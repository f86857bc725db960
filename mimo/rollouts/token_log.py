"""The append-only token record of one context; nothing in it is ever re-encoded.

Sampled tokens enter with the engine's ids, logprobs and weight version; everything else (prompt, tool output)
enters as ids with loss mask False.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mimo.backends.base import Sampled

NOT_SAMPLED = -1
"""`weight_version` of a token that no policy sampled."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Payload:
    """The tokens of one context, each array [n]."""

    token_ids: NDArray[np.int32]
    loss_mask: NDArray[np.bool_]
    sampler_logprobs: NDArray[np.float32]
    """Zero where `loss_mask` is False: there is none, and nothing may read it."""
    weight_version: NDArray[np.int32]
    teacher_logprobs: NDArray[np.float32] | None = None
    """A teacher's, where one scored the context (mopd2); zero where `loss_mask` is False."""

    def __len__(self) -> int:
        return len(self.token_ids)


class TokenLog:
    """Grows by whole messages; `ids` is what the engine is given next."""

    def __init__(self) -> None:
        self._ids: list[int] = []
        self._mask: list[bool] = []
        self._logprobs: list[float] = []
        self._versions: list[int] = []

    @property
    def ids(self) -> tuple[int, ...]:
        """All token ids so far."""
        return tuple(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def given(self, ids: Sequence[int]) -> tuple[int, int]:
        """Append tokens that the policy is given; their span [start, end)."""
        return self._append(ids, [False] * len(ids), [0.0] * len(ids), NOT_SAMPLED)

    def sampled(self, turn: Sampled) -> tuple[int, int]:
        """Append a sampled turn; its span [start, end)."""
        return self._append(turn.token_ids, [True] * len(turn.token_ids), turn.logprobs, turn.weight_version)

    def demonstrated(self, ids: Sequence[int]) -> tuple[int, int]:
        """Append an expert's turn: it carries a loss but was sampled by no policy."""
        return self._append(ids, [True] * len(ids), [0.0] * len(ids), NOT_SAMPLED)

    def _append(
        self, ids: Sequence[int], mask: Sequence[bool], logprobs: Sequence[float], version: int
    ) -> tuple[int, int]:
        start = len(self._ids)
        for token, counts, logprob in zip(ids, mask, logprobs, strict=True):
            self._ids.append(token)
            self._mask.append(counts)
            self._logprobs.append(logprob)
            self._versions.append(version)
        return start, len(self._ids)

    def payload(self) -> Payload:
        """The record so far, as arrays."""
        return Payload(
            token_ids=np.asarray(self._ids, dtype=np.int32),
            loss_mask=np.asarray(self._mask, dtype=np.bool_),
            sampler_logprobs=np.asarray(self._logprobs, dtype=np.float32),
            weight_version=np.asarray(self._versions, dtype=np.int32),
        )
