"""Batches for the tests: groups as plain lists in, tensors out; hypothesis strategies for whole groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf, nan

import torch
from hypothesis import strategies as st
from torch import Tensor

from mimo.algo.batch import Batch, Method, Settings, TokenPenalty, methods_tensor
from mimo.algo.length_penalty import LengthPenalty
from mimo.algo.loss_weights import Aggregation
from mimo.algo.order import ordered_advantages
from mimo.algo.outcomes import BatchAdvantages
from mimo.algo.sequence import LengthPosition

OFF = LengthPenalty(0.0, 0.0, 1.0, 1.5, 30.0, 0.5)
REFERENCE = LengthPenalty(0.2, 0.0, 1.0, 1.5, 30.0, 0.5)  # METHOD 5.1, profile "reference"
GENERAL = LengthPenalty(0.1, 0.3, 1.0, 1.5, 50.0, 0.5)  # METHOD 5.1, profile "general"
FORK = TokenPenalty(2.0, 2.0, 0.5, False)  # METHOD 6.1, the fork's constants


@dataclass
class Rows:
    """One group; a list left out is all valid, no leak, no grade, length 1, ten trained tokens."""

    passed: Sequence[int]
    reward: Sequence[float] | None = None
    solution: Sequence[float] | None = None
    behavior: Sequence[float] | None = None
    quality: Sequence[float] | None = None
    leak: Sequence[int] | None = None
    valid: Sequence[int] | None = None
    length: Sequence[float] | None = None
    tokens: Sequence[int] | None = None
    spans: Sequence[tuple[int, int, int]] = field(default_factory=tuple)


def batch_of(*groups: Rows, dtype: torch.dtype = torch.float64) -> Batch:
    """The groups as one batch, in order; spans count within their group's rollouts."""
    sizes = [len(one.passed) for one in groups]

    def column(name: str, default: float, kind: torch.dtype) -> Tensor:
        rows = [getattr(one, name) or [default] * size for one, size in zip(groups, sizes, strict=True)]
        return torch.tensor([value for row in rows for value in row], dtype=kind)

    passed = column("passed", 0, torch.bool)
    reward = column("reward", nan, dtype)
    firsts = [sum(sizes[:number]) for number in range(len(sizes))]
    spans = [(at + first, a, b) for one, first in zip(groups, firsts, strict=True) for at, a, b in one.spans]
    return Batch(
        group=torch.repeat_interleave(torch.tensor(sizes)),
        valid=column("valid", 1, torch.bool),
        passed=passed,
        leak=column("leak", 0, torch.bool),
        reward=torch.where(reward.isnan(), passed.to(dtype), reward),
        solution=column("solution", nan, dtype),
        behavior=column("behavior", nan, dtype),
        quality=column("quality", nan, dtype),
        length=column("length", 1.0, dtype),
        tokens=column("tokens", 10, torch.int64),
        spans=torch.tensor(spans, dtype=torch.int64).reshape(-1, 3),
    )


def outcome(
    *groups: Rows,
    methods: Sequence[Method] = ("plain",),
    cap: float = inf,
    keep: bool = False,
    recentre: bool = True,
    floor: float = 0.0,
    length: LengthPenalty = OFF,
    aggregation: Aggregation = "prompt-mean",
    token_penalty: TokenPenalty | None = None,
    length_position: LengthPosition = "reward",
    dtype: torch.dtype = torch.float64,
) -> BatchAdvantages:
    """METHOD 7, steps 1 to 10, over the groups; one method is used for all of them."""
    names = list(methods) * len(groups) if len(methods) == 1 else methods
    return ordered_advantages(
        batch_of(*groups, dtype=dtype),
        Settings(methods_tensor(names), cap, keep, recentre, floor, length),
        aggregation=aggregation,
        token_penalty=token_penalty,
        spread_epsilon=1e-9,
        length_position=length_position,
        total=lambda local: local,
    )


def advantages(group: Rows, method: Method = "plain", **settings: object) -> list[float]:
    """The advantages of one group as a list."""
    result = outcome(group, methods=(method,), **settings)  # type: ignore[arg-type]
    return [float(value) for value in result.rollouts.advantage]


FACTORS = st.floats(0.01, 1.0, allow_nan=False)
LENGTHS = st.integers(1, 10**6).map(float)


@st.composite
def groups(draw: st.DrawFn) -> Rows:
    """Any group: verdicts, leaks, failures, grades, lengths in all combinations."""
    count = draw(st.integers(0, 12))

    def row(values: st.SearchStrategy[float]) -> list[float]:
        return draw(st.lists(values, min_size=count, max_size=count))

    flags = st.integers(0, 1)
    scores = st.one_of(st.floats(0, 1), st.just(nan))
    return Rows(
        passed=row(flags),
        solution=row(scores),
        behavior=row(scores),
        quality=row(st.one_of(FACTORS, st.sampled_from([nan, inf, -inf, 0.0, -0.5, 1.5]))),
        leak=row(st.sampled_from([0, 0, 0, 1])),
        valid=row(st.sampled_from([1, 1, 1, 0])),
        length=row(LENGTHS),
        tokens=row(st.integers(0, 20)),
    )


@st.composite
def graded_groups(draw: st.DrawFn) -> Rows:
    """A mixed group whose passes have rewards 1 and usable factors: the scope of GAR's conservation."""
    passes, failures = draw(st.integers(1, 10)), draw(st.integers(1, 10))
    verdicts = draw(st.permutations([1] * passes + [0] * failures))
    quality = draw(st.lists(FACTORS, min_size=len(verdicts), max_size=len(verdicts)))
    length = draw(st.lists(LENGTHS, min_size=len(verdicts), max_size=len(verdicts)))
    return Rows(passed=verdicts, quality=quality, length=length)
