"""How long a stage takes on GPUs: a roofline of the hardware, times the share of it that RL systems reach.

    decoding step  (weights touched + KV cache of the running dialogues) / (tensor parallel x bandwidth)
    sampling       (tokens / (copies x dialogues at a time) x step + prefill FLOPs / peak) / reached share
                   but no less than the tools, verifiers and boxes allow
    training       FLOPs / (GPUs x peak x reached share) + fetches of ZeRO 3
    scoring        teachers and canaries are read by transformers on the CPUs of the first machine

Three shares carry the estimate (sampling, training dense and sparse); docs/plan.md says what they were fitted
to and how far off they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mimo.pipeline.estimate import assumptions as known
from mimo.pipeline.estimate.assumptions import Assumed
from mimo.pipeline.estimate.flops import flops_of, train_flops, weight_bytes
from mimo.pipeline.estimate.hardware import Card, Hardware
from mimo.pipeline.estimate.memory import GIB
from mimo.pipeline.estimate.policy_facts import PolicyFacts
from mimo.pipeline.estimate.work import RolloutSize, Work
from mimo.recipe.models import Recipe

GIGA, TERA = 1e9, 1e12


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuTime:
    """Times of one recipe on `hardware`, whose `card` is not None."""

    recipe: Recipe
    facts: PolicyFacts
    size: RolloutSize
    hardware: Hardware
    card: Card
    assumed: Assumed

    def parts(self, work: Work) -> Mapping[str, float]:
        """Seconds of each part of a stage."""
        found = {
            "start": self._start(work),
            "environments": self._environments(work),
            "sampling": self._sampling(work),
            "training": self._training(work),
            "scoring": self._scoring(work),
            "weights": self._weights(work),
        }
        return {name: seconds for name, seconds in found.items() if seconds > 0}

    def at_a_time(self, work: Work) -> float:
        """Dialogues that one copy of the weights decodes side by side: what requests, boxes, cache allow."""
        sampler, boxes = self.recipe.runtime.sampler, self.recipe.runtime.sandbox
        copies = self.copies()
        rollouts = work.rollouts + work.untrained_rollouts
        ready = min(rollouts / max(1.0, work.sequential), boxes.concurrency * max(1, len(boxes.hosts)))
        room = self._cache_bytes() / self._dialogue_bytes()
        return max(1.0, min(float(sampler.max_num_seqs), ready / copies, room))

    def copies(self) -> float:
        """Copies of the weights that sample."""
        return max(1.0, self.hardware.sampler_gpus / self.recipe.runtime.sampler.tensor_parallel)

    def step_s(self, dialogues: float) -> float:
        """One decoding step of so many dialogues, at the roofline; experts are touched as they are drawn."""
        facts, share = self.facts, self.recipe.runtime.sampler.tensor_parallel
        touched = 1.0 - (1.0 - facts.active_body / facts.body) ** dialogues if facts.sparse else 1.0
        number = 2.0 if self.recipe.policy.dtype == "bfloat16" else 4.0
        read = (facts.body * touched + facts.vocabulary * facts.hidden) * number
        read += dialogues * self._dialogue_bytes()
        return read / (share * self.card.bandwidth * TERA)

    def _sampling(self, work: Work) -> float:
        rollouts = work.rollouts + work.untrained_rollouts
        if not rollouts:
            return 0.0
        at_a_time = self.at_a_time(work)
        sampled = work.generated + work.untrained_generated
        decode = sampled / (self.copies() * at_a_time) * self.step_s(at_a_time)
        peak = self.hardware.sampler_gpus * self.card.tflops * TERA * self.assumed(known.PREFILL_MFU)
        prefill = flops_of(work, self.facts, self.size).prefill / peak
        reached = (decode + prefill) / self.assumed(known.ROLLOUT_ROOFLINE)
        boxes = self.copies() * at_a_time
        tools = decode + prefill + work.turns * self.assumed(known.TOOL_S) / boxes
        verified = rollouts * self.assumed(known.CPU_VERDICT_S) / self._verifiers()
        return max(reached, tools, verified)

    def _training(self, work: Work) -> float:
        if not work.steps:
            return 0.0
        gpus, half = self.hardware.trainer_gpus, self.recipe.policy.dtype == "bfloat16"
        share = self.assumed(known.TRAIN_MFU_MOE if self.facts.sparse else known.TRAIN_MFU_DENSE)
        seconds = train_flops(work, self.facts, self.size, self.recipe) / (
            gpus * self.card.tflops * TERA * share
        )
        if self.recipe.runtime.trainer.zero_stage == 3 and gpus > 1:
            row = max(float(self.recipe.runtime.trainer.micro_batch_tokens), self.size.tokens)
            rows = max(float(work.steps), work.computed / row / gpus)
            fetched = 3.0 * self.facts.parameters * (2.0 if half else 4.0)
            seconds += rows * fetched / (self.assumed(known.GATHER_GB_S) * GIGA)
        return seconds

    def _scoring(self, work: Work) -> float:
        if not (work.scored or work.folder_loads):
            return 0.0
        rate = self._cores() * self.assumed(known.CPU_FORWARD_BF16) * GIGA
        return flops_of(work, self.facts, self.size).score / rate + work.folder_loads * self._read()

    def _weights(self, work: Work) -> float:
        if not (work.publishes or work.checkpoints):
            return 0.0
        machines = self.hardware.trainer_gpus / self.assumed(known.GPUS_A_MACHINE)
        writers = max(1.0, machines) if self.recipe.runtime.trainer.zero_stage else 1.0
        saved = 12.0 * self.facts.parameters / (self.assumed(known.READ_GB_S) * GIGA * writers)
        return work.publishes * 2 * self._read() + work.checkpoints * saved

    def _start(self, work: Work) -> float:
        seconds = self.assumed(known.CPU_STAGE_S)
        if work.sampler_starts:
            start = self.assumed(known.GPU_ENGINE_START_S) + self._read()
            seconds += max(0.0, start - self._training(work)) if work.starts_behind else start
        if work.trainer_starts:
            seconds += self.assumed(known.CPU_TRAINER_START_S) + self._read()
        return seconds

    def _environments(self, work: Work) -> float:
        if not (work.environments or work.verdicts or work.real_verdicts):
            return 0.0
        core_s = work.verdicts * self.assumed(known.CPU_VERDICT_S)
        if work.real_verdicts:
            core_s += work.real_verdicts * self.assumed(known.CPU_REAL_VERDICT_S)
        if work.probes or work.real_probes:
            core_s += work.probes * self.assumed(known.CPU_PROBE_S)
            core_s += work.real_probes * self.assumed(known.CPU_REAL_PROBE_S)
        else:
            core_s += work.environments * self.assumed(known.CPU_BUILD_S)
        side_by_side = self._verifiers() if work.rollouts else self.recipe.runtime.prepare_concurrency
        fetched = work.fetched * self.assumed(known.FETCH_S) if work.fetched else 0.0
        return (core_s + fetched) / side_by_side

    def _verifiers(self) -> float:
        return float(self.recipe.runtime.sandbox.verifiers)

    def _cores(self) -> float:
        if self.hardware.here:
            return float(self.hardware.cores)
        return self.assumed(known.HOST_CORES) * self.assumed(known.GPUS_A_MACHINE)

    def _read(self) -> float:
        return weight_bytes(self.facts, self.recipe.policy.dtype) / (self.assumed(known.READ_GB_S) * GIGA)

    def _dialogue_bytes(self) -> float:
        """KV cache of a dialogue half-way through a mean rollout."""
        number = 2.0 if self.recipe.policy.dtype == "bfloat16" else 4.0
        return self.facts.kv_tokens(self.size.tokens / 2) * number

    def _cache_bytes(self) -> float:
        """KV cache of one copy of the weights; one dialogue's where the weights leave no room."""
        sampler = self.recipe.runtime.sampler
        usable = self.card.memory_gib * sampler.gpu_memory_utilization
        usable -= self.assumed(known.SAMPLER_OVERHEAD_GIB)
        left = sampler.tensor_parallel * usable * GIB - weight_bytes(self.facts, self.recipe.policy.dtype)
        return max(left, self._dialogue_bytes())
