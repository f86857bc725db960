"""What the order of operations takes: tensors over the rollouts and groups of one training batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from mimo.algo.length_penalty import LengthPenalty

Method = Literal["plain", "grs", "gar"]
METHODS: tuple[Method, ...] = ("plain", "grs", "gar")


class Batch(NamedTuple):
    """The rollouts of a batch, in any order; every field [rollouts] but `spans`. All floats have one dtype.

    `group` int64 in [0, groups). `valid` False: infrastructure failure, leaves every statistic. `passed`:
    what the verifier said. `leak`: a confirmed hack. `reward`: the test's reward, 1.0 for a pass and 0.0 for
    a failure unless the task says otherwise. `solution`, `behavior`: rubric scores in [0, 1], read for GRS
    passes, NaN = ungraded. `quality`: factors in (0, 1], read for GAR passes, NaN = no answer. `length`:
    generated tokens. `tokens` int64: trained tokens. `spans` [spans, 3] int64: flags (rollout, start, end)
    counting in trained tokens, overlaps allowed.
    """

    group: Tensor
    valid: Tensor
    passed: Tensor
    leak: Tensor
    reward: Tensor
    solution: Tensor
    behavior: Tensor
    quality: Tensor
    length: Tensor
    tokens: Tensor
    spans: Tensor


class Settings(NamedTuple):
    """How each group is treated. `method` [groups] int64 indexes METHODS; the rest [groups] or a scalar.

    `cap` inf = uncapped; `keep` True = METHOD 5.4's `keep`; `floor` of the GRS scores; `length` the penalty.
    """

    method: Tensor
    cap: Tensor | float
    keep: Tensor | bool
    recentre: Tensor | bool
    floor: Tensor | float
    length: LengthPenalty


class TokenPenalty(NamedTuple):
    """Constants of `token_scales`."""

    kappa: float
    alpha_max: float
    beta_min: float
    skip_if_no_absorber: bool


def methods_tensor(methods: Sequence[Method]) -> Tensor:
    """[groups] int64 codes of the methods, for `Settings.method`."""
    return torch.tensor([METHODS.index(method) for method in methods], dtype=torch.int64)
