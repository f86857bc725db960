"""What an estimate takes for granted: named values, each with its unit and its source; none is hidden.

Three kinds. Of rollouts (nobody knows them before a run), of GPUs (fitted to published throughput of whole
RL systems; how well is a test), of this machine's kind of CPU (measured; `benchmarks/plan_constants.py HOME`
prints them anew from a finished run).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mimo.types import Json


@dataclass(frozen=True, kw_only=True, slots=True)
class Assumption:
    """One value that was assumed, and where it comes from."""

    name: str
    value: float
    unit: str
    source: str

    def as_json(self) -> dict[str, Json]:
        """The same as JSON data."""
        return {"name": self.name, "value": self.value, "unit": self.unit, "source": self.source}


@dataclass(kw_only=True, slots=True)
class Assumed:
    """The assumptions that one estimate really used, in the order of their first use."""

    used: dict[str, Assumption] = field(default_factory=dict)

    def __call__(self, item: Assumption) -> float:
        """The value, noted as used."""
        self.used[item.name] = item
        return item.value


def _of(name: str, value: float, unit: str, source: str) -> Assumption:
    return Assumption(name=name, value=value, unit=unit, source=source)


# -- rollouts ------------------------------------------------------------------------------------------
CONTEXT_SHARE = _of(
    "rollout/context_share", 0.4, "of policy.context_tokens", "our laptop (0.40) and smoke (0.43) runs"
)
GENERATED_SHARE = _of(
    "rollout/generated_share", 0.37, "of a rollout's tokens", "47k generated of 128k: GAR paper, MiMo-V2.6"
)
TURNS_SHARE = _of("rollout/turns_share", 0.92, "of harness.max_turns", "our laptop run: 2.75 of 3")
OPENING_SHARE = _of("rollout/opening_share", 0.6, "of a rollout's tokens", "our laptop and smoke runs")
OPENING_TOKENS = _of("rollout/opening_tokens", 1500.0, "tokens at most", "prompts of the named harnesses")
SAMPLED_PER_ACCEPTED = _of(
    "rollout/sampled_per_accepted", 1.5, "groups", "our laptop (1.45, 1.77) and smoke (1.30) runs"
)
UNTRAINED_FILL = _of(
    "rollout/untrained_fill", 0.9, "of a turn's limit", "base policy of our laptop (0.89) and smoke runs"
)
BAND_REACHED = _of(
    "cold_start/band_reached",
    0.35,
    "of the steps after stop_pass_rate.first_step",
    "smoke: 75 to 130 of 200 steps",
)

# -- GPUs ----------------------------------------------------------------------------------------------
_SYSTEMS = "fitted to NeMo RL's published whole-system throughput (docs/plan.md)"
ROLLOUT_ROOFLINE = _of("gpu/rollout_share_of_roofline", 0.13, "", _SYSTEMS)
PREFILL_MFU = _of("gpu/prefill_share_of_peak", 0.3, "", "usual for vLLM's prefill; enters little")
TRAIN_MFU_DENSE = _of("gpu/train_share_of_peak_dense", 0.35, "", _SYSTEMS)
TRAIN_MFU_MOE = _of("gpu/train_share_of_peak_moe", 0.025, "", _SYSTEMS + "; prime-rl's 30B-A3B: 0.015-0.03")
SAMPLER_OVERHEAD_GIB = _of("gpu/sampler_overhead", 3.0, "GiB", "CUDA context, graphs, work space")
TRAINER_OVERHEAD_GIB = _of("gpu/trainer_overhead", 3.0, "GiB", "CUDA context, buckets, fragmentation")
SLEEPING_SAMPLER_GIB = _of(
    "gpu/sleeping_sampler", 2.0, "GiB", "CUDA context and graphs of a vLLM server; not measured by us"
)
COPY_GB_S = _of("gpu/copy", 10.0, "GB/s", "main memory to GPUs, one after the other; teachers of mopd2")
GPU_ENGINE_START_S = _of(
    "gpu/engine_start", 180.0, "s", "compile and CUDA graphs of a vLLM server; not measured by us"
)
READ_GB_S = _of("disk/read_and_write", 1.0, "GB/s", "one NVMe disk; weights, exports, checkpoints")
GATHER_GB_S = _of("gpu/gather", 50.0, "GB/s a GPU", "one 400 Gbit link; ZeRO 3 fetches all weights for a row")
HOST_CORES = _of("host/cores_a_gpu", 12.0, "cores", "usual for rented 8-GPU machines; this one has no GPU")
GPUS_A_MACHINE = _of("host/gpus_a_machine", 8.0, "GPUs", "checkpoints are written by every machine at once")
TOOL_S = _of("box/tool_call", 0.5, "s", "a command of a coding task; pipes cost 0.2 ms")

# -- CPUs: physical speeds of one core -----------------------------------------------------------------
MEASURED = "measured 2026-11-30 on two AVX-512 cores, commits 0e08555, de79820"
"""Where and when the CPU constants were fitted (smoke and laptop, a quiet machine). Change it with them."""
CPU_FORWARD_BF16 = _of("cpu/forward_bf16", 115.0, "GFLOP/s a core", MEASURED)
CPU_FORWARD_F32 = _of("cpu/forward_f32", 45.0, "GFLOP/s a core", MEASURED)
CPU_TRAIN_BF16 = _of("cpu/train_bf16", 98.0, "GFLOP/s a core", MEASURED)
CPU_TRAIN_F32 = _of("cpu/train_f32", 50.0, "GFLOP/s a core", MEASURED)
CPU_TOKEN_S = _of("cpu/engine_token", 0.0011, "core s a sampled token, besides its FLOPs", MEASURED)
CPU_CACHE_BLOCK = _of(
    "cpu/cache_block", 128.0, "tokens", "vLLM on a CPU: half a block is read again each turn"
)
CPU_TAIL = _of("cpu/longest_over_mean", 2.0, "tokens of a round's last rollout", "our laptop and smoke runs")
CPU_STEP_S = _of("cpu/engine_step", 0.012, "s a decoding step, alone", MEASURED)
CPU_MEMORY_GB_S = _of("cpu/memory", 12.0, "GB/s of weights read in a decoding step", MEASURED)
CPU_VERDICT_S = _of("cpu/verification", 0.11, "core s", MEASURED)
CPU_REAL_VERDICT_S = _of("cpu/verification_real", 2.4, "core s: a small package's own tests", MEASURED)
FETCH_S = _of("net/archive", 2.0, "s to download one", "small packages; nothing where pip has them cached")
CPU_BUILD_S = _of("cpu/environment", 0.1, "core s to make one", MEASURED)
CPU_PROBE_S = _of("cpu/probe", 0.115, "core s a round", MEASURED)
CPU_REAL_PROBE_S = _of("cpu/probe_real", 1.3, "core s a round of a small package", MEASURED)
CPU_ROLLOUT_S = _of(
    "cpu/rollout", 0.06, "core s: box, harness, a verification shared by equal changes", MEASURED
)
CPU_OPTIMIZER_S = _of("cpu/optimizer", 7.0, "s for 1e9 parameters a step", MEASURED)
CPU_STEP_FIXED_S = _of("cpu/train_step", 0.03, "s a step: batch, rows, messages", MEASURED)
CPU_SAMPLER_START_S = _of("cpu/sampler_start", 30.0, "s", MEASURED)
CPU_TRAINER_START_S = _of("cpu/trainer_start", 5.0, "s", MEASURED)
CPU_STAGE_S = _of("cpu/stage", 1.5, "s to begin and to end a stage", MEASURED)
CPU_CLIENT_S = _of("cpu/stage_that_samples", 3.5, "s more: imports, tokenizer, canary's sequences", MEASURED)
CPU_SCORE_S = _of("cpu/scored_sequence", 0.012, "s besides its FLOPs", MEASURED)
CPU_CANARY_S = _of("cpu/canary", 6.0, "s for 1e9 parameters, both engines", MEASURED)
CPU_EXPORT_GB_S = _of("cpu/export", 0.4, "GB/s of served weights, written with digests, read again", MEASURED)
PERTURBED = _of(
    "canary/perturbed_updates", 4.0, "updates more at a bf16 start", "two perturbed copies, and back"
)
SAMPLER_HOST_GIB = _of("cpu/sampler_process", 2.2, "GiB", "resident after load, docs/engines.md")
TRAINER_HOST_GIB = _of("cpu/trainer_process", 0.9, "GiB", "resident before the model; docs/training.md")
