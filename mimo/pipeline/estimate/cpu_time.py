"""How long a stage takes on the cores of one machine: core seconds add up, as all share the same cores.

    seconds = sum of core seconds / cores + what runs alone (starts, optimiser, weight updates, tails)

Every speed is an assumption of `assumptions.py`, measured, in physical units; none belongs to a stage.
"""

from __future__ import annotations

from dataclasses import dataclass

from mimo.pipeline.estimate import assumptions as known
from mimo.pipeline.estimate.clock import GIGA, Clock
from mimo.pipeline.estimate.flops import flops_of, train_flops, weight_bytes
from mimo.pipeline.estimate.work import Work


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuTime(Clock):
    """Times of one recipe on `cores` cores."""

    cores: int

    def _start(self, work: Work) -> float:
        seconds = self.assumed(known.CPU_STAGE_S)
        if work.sampler_starts:
            start = self.assumed(known.CPU_SAMPLER_START_S)  # keeps one core busy
            seconds += start / self.cores if work.starts_behind else start
        if work.rollouts:
            seconds += self.assumed(known.CPU_CLIENT_S)
        if work.trainer_starts:
            seconds += self.assumed(known.CPU_TRAINER_START_S)
        return seconds

    def _side_by_side(self, work: Work) -> float:
        runtime = self.recipe.runtime
        return min(self.cores, runtime.sandbox.verifiers if work.rollouts else runtime.prepare_concurrency)

    def _sampling(self, work: Work) -> float:
        rollouts = work.rollouts + work.untrained_rollouts
        if not rollouts:
            return 0.0
        flops = flops_of(work, self.facts, self.size, reread=self._reread(work, rollouts))
        sampled = work.generated + work.untrained_generated
        core_s = (flops.prefill + flops.decode) / self._forward_rate()
        core_s += sampled * self.assumed(known.CPU_TOKEN_S) + rollouts * self.assumed(known.CPU_ROLLOUT_S)
        longest = self.assumed(known.CPU_TAIL) * self.size.generated
        return core_s / self.cores + work.sequential * longest * self._step_alone()

    def _reread(self, work: Work, rollouts: float) -> float:
        """Prompt tokens that the cache of whole blocks loses each turn, less the openings it shares."""
        block = self.assumed(known.CPU_CACHE_BLOCK)
        lost = max(0.0, work.turns - rollouts) * block / 2
        shared = max(0.0, rollouts - work.groups) * block * (self.size.opening // block)
        return lost - shared

    def _step_alone(self) -> float:
        """A decoding step with one sequence: the weights are read once."""
        read = weight_bytes(self.facts, self._dtype) / (self.assumed(known.CPU_MEMORY_GB_S) * GIGA)
        return self.assumed(known.CPU_STEP_S) + read

    def _training(self, work: Work) -> float:
        if not work.steps:
            return 0.0
        rate = known.CPU_TRAIN_BF16 if self._dtype == "bfloat16" else known.CPU_TRAIN_F32
        core_s = train_flops(work, self.facts, self.size, self.recipe) / (self.assumed(rate) * GIGA)
        fixed = self.assumed(known.CPU_STEP_FIXED_S)
        fixed += self.facts.parameters / GIGA * self.assumed(known.CPU_OPTIMIZER_S)
        return core_s / self.cores + work.steps * fixed

    def _scoring(self, work: Work, gpus: int) -> float:
        assert gpus == 0, "no GPU is counted with here"
        core_s = flops_of(work, self.facts, self.size).score / self._forward_rate()
        each = self.assumed(known.CPU_SCORE_S) + self._cast_s()
        return core_s / self.cores + work.scored_sequences * each + work.folder_loads * self._read()

    def _cast_s(self) -> float:
        """Float32 weights read in bfloat16 are cast once a forward pass: 6 bytes a parameter move."""
        if self._dtype == "float32":
            return 0.0
        return 6.0 * self.facts.parameters / (self.assumed(known.CPU_MEMORY_GB_S) * GIGA)

    def _weights(self, work: Work) -> float:
        """Exports, updates and canaries; checkpoints with float32 weights and optimiser state."""
        written = weight_bytes(self.facts, self._dtype) / (self.assumed(known.CPU_EXPORT_GB_S) * GIGA)
        canary = self.facts.parameters / GIGA * self.assumed(known.CPU_CANARY_S)
        saved = 12.0 * self.facts.parameters / (self.assumed(known.READ_GB_S) * GIGA)
        publishes = work.publishes
        if work.trainer_starts and self._dtype == "bfloat16":
            publishes += self.assumed(known.PERTURBED)
        return publishes * (2 * written + canary) + work.checkpoints * saved

    def _forward_rate(self) -> float:
        """FLOP/s of one core."""
        rate = known.CPU_FORWARD_BF16 if self._dtype == "bfloat16" else known.CPU_FORWARD_F32
        return self.assumed(rate) * GIGA
