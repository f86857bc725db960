"""From scored samples to the learning signal of mopd2: k1 advantages, loss weights, and what they say.

A_t = clip(log pi_T - log pi, +-clip) + alpha A_outcome on every trained token, with both logprobs of the very
same token ids; a token of a sample weighs rho_d zeta_kind / (n_{kind,d} |y|) (METHOD 10.2).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from mimo.algo.distill import mopd_advantages
from mimo.algo.sample_weights import sample_weights
from mimo.rollouts.loop import Finished
from mimo.rollouts.signal import TrainedRollout
from mimo.rollouts.token_log import Payload
from mimo.stages.mopd2_samples import KINDS, TEACHER_OF, Kind, Sample
from mimo.types import RolloutStatus


@dataclass(frozen=True, kw_only=True, slots=True)
class DistilRules:
    """The recipe's numbers: zeta by kind, rho by domain, the clip in nats, the outcome's weight."""

    kinds: Mapping[Kind, float]
    domains: Mapping[str, float]
    clip: float
    alpha: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoredSample:
    """A sample and two logprobs of each of its trained tokens: [trained] float32 each."""

    sample: Sample
    policy_logprobs: NDArray[np.float32]
    teacher_logprobs: NDArray[np.float32]

    @property
    def gap(self) -> NDArray[np.float32]:
        """[trained] log teacher - log policy, not clipped."""
        return self.teacher_logprobs - self.policy_logprobs


@dataclass(frozen=True, kw_only=True, slots=True)
class DistilSignal:
    """What goes into the batch, the records with the teacher's logprobs, and the step's metrics."""

    trained: tuple[TrainedRollout, ...]
    finished: tuple[Finished, ...]
    metrics: dict[str, float]


def has_tokens(sample: Sample) -> bool:
    """Whether anything can be scored: sampled, and not broken off by an infrastructure failure."""
    good = sample.finished.rollout.status in (RolloutStatus.DONE, RolloutStatus.TRUNCATED)
    payload = sample.finished.payload
    return good and payload is not None and bool(payload.loss_mask.any())


def distil_signal(scored: Sequence[ScoredSample], rules: DistilRules) -> DistilSignal:
    """The signal of a step; a (kind, domain) without samples adds nothing and raises no other."""
    weights = _weights(scored, rules)
    trained, finished = [], []
    for item, weight in zip(scored, weights, strict=True):
        kept = _with_teacher(item)
        finished.append(kept)
        payload = payload_of(kept)
        advantages = np.zeros(len(payload), dtype=np.float32)
        advantages[payload.loss_mask] = _advantages(item, rules)
        trained.append(TrainedRollout(finished=kept, advantages=advantages, loss_weight=weight))
    return DistilSignal(trained=tuple(trained), finished=tuple(finished), metrics=_metrics(scored, rules))


def payload_of(finished: Finished) -> Payload:
    """The tokens of a sample that has some."""
    assert finished.payload is not None
    return finished.payload


def _advantages(item: ScoredSample, rules: DistilRules) -> NDArray[np.float32]:
    outcome = torch.full((len(item.gap),), item.sample.outcome, dtype=torch.float32)
    found = mopd_advantages(
        torch.from_numpy(item.policy_logprobs),
        torch.from_numpy(item.teacher_logprobs),
        outcome,
        alpha=rules.alpha,
        clip=rules.clip,
    )
    values: NDArray[np.float32] = found.numpy()
    return values


def _weights(scored: Sequence[ScoredSample], rules: DistilRules) -> list[float]:
    domains = sorted(rules.domains)
    weights = sample_weights(
        torch.tensor([KINDS.index(item.sample.kind) for item in scored], dtype=torch.int64),
        torch.tensor([domains.index(item.sample.finished.rollout.domain) for item in scored]),
        torch.tensor([len(item.gap) for item in scored]),
        kind_weights=torch.tensor([rules.kinds[kind] for kind in KINDS], dtype=torch.float64),
        domain_weights=torch.tensor([rules.domains[name] for name in domains], dtype=torch.float64),
    )
    return [float(weight) for weight in weights]


def _with_teacher(item: ScoredSample) -> Finished:
    payload = payload_of(item.sample.finished)
    column = np.zeros(len(payload), dtype=np.float32)
    column[payload.loss_mask] = item.teacher_logprobs
    return replace(item.sample.finished, payload=replace(payload, teacher_logprobs=column))


def _metrics(scored: Sequence[ScoredSample], rules: DistilRules) -> dict[str, float]:
    metrics: dict[str, float] = {}
    for kind in KINDS:
        rows = [item for item in scored if item.sample.kind == kind]
        if rows:
            metrics |= _kind_metrics(f"{kind}/{TEACHER_OF[kind]}", rows, rules)
            metrics |= _turn_metrics(kind, [item.sample for item in rows])
    return metrics


def _kind_metrics(name: str, rows: Sequence[ScoredSample], rules: DistilRules) -> dict[str, float]:
    gaps = np.concatenate([item.gap for item in rows]).astype(np.float64)
    if not len(gaps):
        return {}
    return {
        f"reverse_kl/{name}": float(-gaps.mean()) + 0.0,
        f"gap_abs_mean/{name}": float(np.abs(gaps).mean()),
        f"gap_clipped_share/{name}": float((np.abs(gaps) > rules.clip).mean()),
        f"tokens/{name}": float(len(gaps)),
        f"samples/{name}": float(len(rows)),
    }


def _turn_metrics(kind: Kind, samples: Sequence[Sample]) -> dict[str, float]:
    """How many samples ended by length; of single turns also how many began at each position."""
    cut = [sample.finished.rollout.status is RolloutStatus.TRUNCATED for sample in samples]
    metrics = {f"truncated_share/{kind}": math.fsum(cut) / len(cut)}
    places = Counter(sample.position for sample in samples if sample.position is not None)
    return metrics | {f"prefix_position/{kind}/{place}": float(number) for place, number in places.items()}
