"""How long a stage takes on GPUs: a roofline of the hardware, times the share of it that RL systems reach.

    decoding step  (weights touched + KV cache of the running dialogues) / (tensor parallel x bandwidth)
    sampling       (tokens / (copies x dialogues at a time) x step + prefill FLOPs / peak) / reached share
                   but no less than the tools, verifiers and boxes allow
    training       FLOPs / (GPUs x peak x reached share) + fetches of ZeRO 3
    scoring        teachers: FLOPs / (GPUs that hold a copy x peak x training's share) + loads; on the CPUs of
                   the first machine where no GPU has room; canaries always

Three shares carry the estimate (sampling, training dense and sparse); docs/plan.md says what they were fitted
to and how far off they are.
"""

from __future__ import annotations

from dataclasses import dataclass

from mimo.pipeline.estimate import assumptions as known
from mimo.pipeline.estimate.clock import GIGA, Clock
from mimo.pipeline.estimate.flops import flops_of, train_flops, weight_bytes
from mimo.pipeline.estimate.hardware import Card, Hardware
from mimo.pipeline.estimate.memory import GIB
from mimo.pipeline.estimate.work import Work

TERA = 1e12


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuTime(Clock):
    """Times of one recipe on `hardware`, whose `card` is not None."""

    hardware: Hardware
    card: Card

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
        rate = gpus * self.card.tflops * TERA * self._reached()
        seconds = train_flops(work, self.facts, self.size, self.recipe) / rate
        if self.recipe.runtime.trainer.zero_stage == 3 and gpus > 1:
            row = max(float(self.recipe.runtime.trainer.micro_batch_tokens), self.size.tokens)
            rows = max(float(work.steps), work.computed / row / gpus)
            fetched = 3.0 * self.facts.parameters * (2.0 if half else 4.0)
            seconds += rows * fetched / (self.assumed(known.GATHER_GB_S) * GIGA)
        return seconds

    def _scoring(self, work: Work, gpus: int) -> float:
        flops = flops_of(work, self.facts, self.size).score
        if not gpus:
            rate = self._cores() * self.assumed(known.CPU_FORWARD_BF16) * GIGA
            return flops / rate + work.folder_loads * self._read()
        rate = gpus * self.card.tflops * TERA * self._reached()
        copied = gpus * weight_bytes(self.facts, self._dtype) / (self.assumed(known.COPY_GB_S) * GIGA)
        return flops / rate + work.folder_loads * (self._read() + copied)

    def _reached(self) -> float:
        """Share of a GPU's peak that a pass of transformers' model reaches."""
        return self.assumed(known.TRAIN_MFU_MOE if self.facts.sparse else known.TRAIN_MFU_DENSE)

    def _weights(self, work: Work) -> float:
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

    def _side_by_side(self, work: Work) -> float:
        return self._verifiers() if work.rollouts else float(self.recipe.runtime.prepare_concurrency)

    def _verifiers(self) -> float:
        return float(self.recipe.runtime.sandbox.verifiers)

    def _cores(self) -> float:
        if self.hardware.here:
            return float(self.hardware.cores)
        return self.assumed(known.HOST_CORES) * self.assumed(known.GPUS_A_MACHINE)

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
