"""What a step adds up over rows and ranks, and the metrics made of it (meaning: docs/training.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

import torch

from mimo.algo.loss import LossCounts
from mimo.backends.base import LossKind
from mimo.training.packing import Row

if TYPE_CHECKING:
    from mimo.training.engine import Engine

GAP_SAMPLE = 65536
"""Most values a rank gives to the percentile of |logprob difference|, evenly spaced over its tokens."""


@dataclass(slots=True)
class StepTotals:
    """Sums over the trained tokens of a step; `reduced` makes them global."""

    kind: LossKind
    loss: float = 0.0
    trained_tokens: float = 0
    computed_tokens: float = 0
    rows: float = 0
    signal_tokens: float = 0
    entropy: float = 0.0
    logprob: float = 0.0
    ratio: float = 0.0
    kl_k3: float = 0.0
    positive: float = 0
    negative: float = 0
    positive_low: float = 0
    positive_high: float = 0
    negative_low: float = 0
    negative_high: float = 0
    ratio_max: float = 0.0
    gap_max: float = 0.0
    gaps: list[torch.Tensor] = field(default_factory=list)

    def add(
        self, row: Row, logprobs: torch.Tensor, entropies: torch.Tensor, sampler_logprobs: torch.Tensor
    ) -> None:
        """Count a row: [trained] tensors of its trained tokens."""
        self.rows += 1
        self.computed_tokens += len(row.token_ids)
        self.trained_tokens += len(row.select)
        self.entropy += float(entropies.sum())
        self.logprob += float(logprobs.sum())
        if self.kind == "sft" or not len(logprobs):
            return
        delta = (logprobs - sampler_logprobs).double()
        ratio = delta.exp()
        self.ratio += float(ratio.sum())
        self.kl_k3 += float((ratio - 1 - delta).sum())
        self.ratio_max = max(self.ratio_max, float(ratio.max()))
        self.gap_max = max(self.gap_max, float(delta.abs().max()))
        self.gaps.append(delta.abs().float().cpu())

    def count_masks(self, counts: LossCounts) -> None:
        """Add the tokens by side and by the bound that left them out; `kept` ones carry a signal."""
        self.positive += int(counts.positive)
        self.negative += int(counts.negative)
        self.signal_tokens += int(counts.kept)
        self.positive_low += int(counts.positive_low)
        self.positive_high += int(counts.positive_high)
        self.negative_low += int(counts.negative_low)
        self.negative_high += int(counts.negative_high)

    def reduced(self, engine: Engine) -> StepTotals:
        """The totals over all ranks, equal on each."""
        names = [
            item.name for item in fields(self) if item.name not in ("kind", "gaps", "ratio_max", "gap_max")
        ]
        sums = engine.sum_over_ranks(
            torch.tensor([getattr(self, name) for name in names], dtype=torch.float64)
        )
        highest = engine.max_over_ranks(torch.tensor([self.ratio_max, self.gap_max], dtype=torch.float64))
        return StepTotals(
            kind=self.kind,
            ratio_max=float(highest[0]),
            gap_max=float(highest[1]),
            gaps=engine.gather_sample(_sample(self.gaps)),
            **dict(zip(names, sums.tolist(), strict=True)),
        )

    def metrics(
        self, *, seconds: Mapping[str, float], grad_norm: float, learning_rate: float
    ) -> dict[str, float]:
        """Every metric of the step by name; call it on reduced totals."""
        tokens = max(self.trained_tokens, 1)
        total_s = sum(seconds.values())
        found = {
            "loss": self.loss,
            "grad_norm": grad_norm,
            "learning_rate": learning_rate,
            "step/trained": float(self.signal_tokens > 0 and grad_norm > 0),
            "tokens/trained": self.trained_tokens,
            "tokens/computed": self.computed_tokens,
            "tokens/signal": self.signal_tokens,
            "tokens/per_s": self.computed_tokens / total_s if total_s else 0.0,
            "rows": self.rows,
            "entropy/mean": self.entropy / tokens,
            "logprob/mean": self.logprob / tokens,
        }
        found |= {f"time/{part}_s": value for part, value in seconds.items()}
        return found | (self._ratio_metrics(tokens) if self.kind == "rl" else {})

    def _ratio_metrics(self, tokens: float) -> dict[str, float]:
        gaps = torch.cat(self.gaps) if self.gaps else torch.zeros(1)
        found = {
            "ratio/mean": self.ratio / tokens,
            "ratio/max": self.ratio_max,
            "logprob_gap/mean": float(gaps.mean()),
            "logprob_gap/p95": float(gaps.quantile(0.95)),
            "logprob_gap/max": self.gap_max,
            "kl/sampler_to_policy": self.kl_k3 / tokens,
        }
        for side in ("positive", "negative"):
            count = max(getattr(self, side), 1)
            found[f"mask/{side}_low"] = getattr(self, f"{side}_low") / count
            found[f"mask/{side}_high"] = getattr(self, f"{side}_high") / count
            found[f"tokens/{side}"] = getattr(self, side)
        return found


def _sample(gaps: list[torch.Tensor]) -> torch.Tensor:
    every = torch.cat(gaps) if gaps else torch.zeros(0)
    return every[:: max(-(-len(every) // GAP_SAMPLE), 1)]
