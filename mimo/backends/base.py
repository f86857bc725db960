"""The two contracts of the engine side: a Sampler makes tokens, a Trainer changes weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from mimo.types import FinishReason, Json


@dataclass(frozen=True, kw_only=True, slots=True)
class SamplingParams:
    """How one turn is sampled; the logprobs that come back are of this very distribution."""

    temperature: float
    top_p: float
    max_tokens: int
    stop_token_ids: tuple[int, ...] = ()
    seed: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampled:
    """One sampled turn: ids as the engine made them (stop token included when it was sampled)."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """One per token, processed (after temperature and top-p), natural log."""
    finish_reason: FinishReason
    weight_version: int
    cached_tokens: int | None = None
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightUpdate:
    """What the engine confirmed of one weight update."""

    version: int
    seconds: float
    prefix_cache_reset: bool


class Sampler(Protocol):
    """A serving engine. Token-in, token-out; `weight_version` goes into every request's cache salt."""

    weight_version: int

    async def generate(
        self, prompt_ids: Sequence[int], params: SamplingParams, *, request_id: str
    ) -> Sampled:
        """One continuation of `prompt_ids`.

        Raises:
            EngineFailed: the engine is gone or does not answer (the run resumes by starting it again).
        """
        ...

    async def score(self, token_ids: Sequence[int], *, temperature: float) -> tuple[float, ...]:
        """Logprob of each token but the first given those before it: [len(token_ids) - 1]."""
        ...

    async def update_weights(self, model_dir: Path, version: int) -> WeightUpdate:
        """Replace the weights by those in `model_dir`, reset every cache and check that it was reset."""
        ...

    async def close(self) -> None:
        """Close the client's connections (not the engine)."""
        ...


class Pausable(Protocol):
    """An engine whose GPU memory others may have for a while."""

    async def pause(self, *, sleep: bool = False) -> None:
        """Let running requests end and start no other. `sleep` frees a GPU's memory; the weights are kept."""
        ...

    async def resume(self, *, wake_up: bool = False) -> None:
        """Take requests again; `wake_up` after `pause(sleep=True)`."""
        ...

    async def is_sleeping(self) -> bool:
        """Whether it is paused, asleep or not."""
        ...


class Scorer(Protocol):
    """Whatever can say how likely tokens are: a trainer, or the weights in a folder."""

    def score(self, sequences: Sequence[Sequence[int]], *, temperature: float) -> list[tuple[float, ...]]:
        """Per sequence, the logprob of each token but the first given those before it."""
        ...


LossKind = Literal["sft", "rl"]


@dataclass(frozen=True, kw_only=True, slots=True)
class LossSpec:
    """Which loss a batch is trained with. For `rl` the bounds of the masked importance ratio (METHOD 2)."""

    kind: LossKind
    temperature: float = 1.0
    positive_low: float = 0.2
    positive_high: float = 5.0
    negative_low: float = 0.2
    negative_high: float = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainReport:
    """One optimiser step: every metric by name, and the tokens that carried a loss."""

    step: int
    metrics: Mapping[str, float]
    trained_tokens: int
    seconds: float


class Trainer(Protocol):
    """The training engine, behind a process boundary; blocking calls; only its own stage owns it."""

    def train_step(self, batch_dir: Path, loss: LossSpec, *, learning_rate: float) -> TrainReport:
        """Forward, backward and one optimiser step over the batch folder (see mimo.training.batch)."""
        ...

    def score(self, sequences: Sequence[Sequence[int]], *, temperature: float) -> list[tuple[float, ...]]:
        """Per sequence, the policy logprob of each token but the first given those before it."""
        ...

    def export(self, model_dir: Path) -> Mapping[str, Json]:
        """Write a servable folder (safetensors, config, tokenizer; head untied); returns its manifest."""
        ...

    def save(self, trainer_dir: Path) -> None:
        """Write model, optimiser and RNG state for an exact resume."""
        ...

    def load(self, trainer_dir: Path) -> None:
        """Read what `save` wrote; raises EngineFailed when the folder is damaged or incomplete."""
        ...

    def close(self) -> None:
        """End the training processes and everything they left. Idempotent."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class SamplerConfig:
    """A vLLM server to start (or, with `url`, one to use). Runtime facts: none of these change a result."""

    model_dir: Path
    dtype: str
    max_model_len: int
    url: str | None = None
    port: int | None = None
    device: Literal["cpu", "cuda"] = "cpu"
    kv_cache_gib: float = 1.0
    max_num_seqs: int = 64
    threads: int | None = None
    gpu_memory_utilization: float = 0.85
    tensor_parallel: int = 1
    data_parallel: int = 1
    start_timeout_s: float = 600.0
    log_file: Path | None = None
    extra_args: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainerConfig:
    """A DeepSpeed trainer to launch. `optimizer` and `grad_clip` are the method's, the rest is runtime."""

    model_dir: Path
    compute_dtype: Literal["float32", "bfloat16"]
    optimizer: Mapping[str, Json]
    grad_clip: float
    seed: int
    device: Literal["cpu", "cuda"] = "cpu"
    num_processes: int = 1
    hostfile: Path | None = None
    zero_stage: Literal[0, 1, 2, 3] = 0
    micro_batch_tokens: int = 4096
    recompute: bool = False
    threads: int | None = None
    start_timeout_s: float = 600.0
    log_file: Path | None = None
    deepspeed: Mapping[str, Json] = field(default_factory=dict)
