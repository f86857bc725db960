"""What times on GPUs and on cores have in common: the parts of a stage, its environments, reading weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from mimo.pipeline.estimate import assumptions as known
from mimo.pipeline.estimate.assumptions import Assumed
from mimo.pipeline.estimate.flops import weight_bytes
from mimo.pipeline.estimate.policy_facts import PolicyFacts
from mimo.pipeline.estimate.work import RolloutSize, Work
from mimo.recipe.models import Recipe

GIGA = 1e9


@dataclass(frozen=True, kw_only=True, slots=True)
class Clock(ABC):
    """Times of one recipe on some hardware."""

    recipe: Recipe
    facts: PolicyFacts
    size: RolloutSize
    assumed: Assumed

    def parts(self, work: Work, *, reading_gpus: int = 0) -> Mapping[str, float]:
        """Seconds of each part of a stage: start, environments, sampling, training, scoring, weights.

        Args:
            reading_gpus: GPUs that hold a copy of a teacher; 0 = they are read on the CPU.
        """
        found = {
            "start": self._start(work),
            "environments": self._environments(work),
            "sampling": self._sampling(work),
            "training": self._training(work),
            "scoring": self._scoring(work, reading_gpus) if work.scored or work.folder_loads else 0.0,
            "weights": self._weights(work) if work.publishes or work.checkpoints else 0.0,
        }
        return {name: seconds for name, seconds in found.items() if seconds > 0}

    @abstractmethod
    def _start(self, work: Work) -> float: ...

    @abstractmethod
    def _sampling(self, work: Work) -> float: ...

    @abstractmethod
    def _training(self, work: Work) -> float: ...

    @abstractmethod
    def _scoring(self, work: Work, gpus: int) -> float: ...

    @abstractmethod
    def _weights(self, work: Work) -> float: ...

    @abstractmethod
    def _side_by_side(self, work: Work) -> float:
        """Environments and verifications at a time."""

    def _environments(self, work: Work) -> float:
        if not (work.environments or work.verdicts or work.real_verdicts):
            return 0.0
        core_s = work.verdicts * self.assumed(known.CPU_VERDICT_S)
        if work.real_verdicts:
            core_s += work.real_verdicts * self.assumed(known.CPU_REAL_VERDICT_S)
        if work.probes or work.real_probes:
            core_s += work.probes * self.assumed(known.CPU_PROBE_S)
            core_s += work.real_probes * self.assumed(known.CPU_REAL_PROBE_S)
        elif work.environments:
            core_s += work.environments * self.assumed(known.CPU_BUILD_S)
        fetched = work.fetched * self.assumed(known.FETCH_S) if work.fetched else 0.0
        return (core_s + fetched) / self._side_by_side(work)

    def _read(self) -> float:
        """Seconds to read the served weights once."""
        return weight_bytes(self.facts, self._dtype) / (self.assumed(known.READ_GB_S) * GIGA)

    @property
    def _dtype(self) -> str:
        return self.recipe.policy.dtype
