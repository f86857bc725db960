"""`runtime:` and `tracking:`: how and where a recipe runs; never part of a result's identity."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from mimo.recipe.model_base import Count, Many, NonNegative, Positive, Section, Whole
from mimo.types import Json

Device = Literal["auto", "cpu", "cuda"]
Port = Annotated[int, Field(ge=1, le=65535)]


class SamplerRuntime(Section):
    """The serving engine (vLLM)."""

    urls: Many[str]
    """Servers to use instead of starting one; empty = start our own."""
    port: Port | None
    """Port of our own server; null = a free one."""
    device: Device
    """Where it runs; auto = a GPU if there is one."""
    kv_cache_gib: Positive
    """Memory for the key-value cache on a CPU, GiB."""
    max_num_seqs: Count
    """Requests decoded at the same time."""
    threads: Count | None
    """CPU threads; null = every core."""
    gpu_memory_utilization: Annotated[float, Field(gt=0.0, le=1.0)]
    """Share of a GPU's memory the engine may take, (0, 1]."""
    tensor_parallel: Count
    """GPUs that share one copy of the weights."""
    data_parallel: Count
    """Copies of the weights."""
    start_timeout_s: Positive
    """Seconds until a server that is not up counts as failed."""
    extra_args: Many[str]
    """Further arguments of the vLLM server, passed on as they are."""


class TrainerRuntime(Section):
    """The training engine (DeepSpeed)."""

    launcher: Literal["deepspeed", "slurm"]
    """What starts the training processes."""
    device: Device
    """Where it runs; auto = a GPU if there is one."""
    num_processes: Count
    """Training processes on each machine (one a GPU)."""
    hostfile: str | None
    """DeepSpeed hostfile for many machines, relative to the file it is named in; null = this machine."""
    zero_stage: Literal[0, 1, 2, 3]
    """What ZeRO splits over processes: 0 nothing, 1 optimiser, 2 + gradients, 3 + weights."""
    micro_batch_tokens: Count
    """Tokens of one forward and backward pass; memory grows with it, the result does not change."""
    recompute: bool
    """Keep each layer's input only and compute the layer again in the backward pass: long rows fit, a step
    takes a third longer."""
    threads: Count | None
    """CPU threads of each process; null = every core divided by the processes."""
    start_timeout_s: Positive
    """Seconds until a trainer that is not up counts as failed."""
    deepspeed: dict[str, Json]
    """Further keys merged into DeepSpeed's configuration."""


class TeacherRuntime(Section):
    """Where mopd2 reads its teachers, and the student beside them (one at a time)."""

    device: Device
    """auto = where the trainer runs: a copy on each GPU that has room, and the CPU where none has, counted;
    cuda = GPUs, or the stage fails; cpu = the CPU. A pass has `runtime.trainer.micro_batch_tokens` on a GPU
    and one dialogue on the CPU."""


class SandboxRuntime(Section):
    """Where boxes run."""

    concurrency: Count
    """Boxes open at the same time on each host."""
    verifiers: Count
    """Verifications running at the same time, about the number of cores."""
    runtime: str | None
    """Container runtime of the docker back end (runsc, kata, …); null = the daemon's default."""
    hosts: Many[str]
    """Docker hosts to spread boxes over; empty = this machine."""


class JudgeRuntime(Section):
    """The endpoint of `grading.judge` (any OpenAI-compatible server)."""

    url: str | None
    """Base of its API, up to and with /v1."""
    api_key: str | None
    """Key, as ${env:NAME}; null = none is sent."""
    timeout_s: Positive
    """Seconds one answer may take."""
    concurrency: Count
    """Questions asked at the same time."""


class PlanRuntime(Section):
    """What `mimo plan` counts with and cannot know; null = see docs/plan.md. Nothing else reads it."""

    gpu: str | None
    """Card that is counted with (h100, h200, a100-80, …); null = this machine's, h100 where it has none."""
    gpu_hour_usd: NonNegative | None
    """Price of a GPU hour, USD; null = the usual price of that card in docs/plan.md."""
    sampler_gpus: Count | None
    """GPUs of all sampling servers; null = tensor_parallel x data_parallel, for each of `sampler.urls`."""
    trainer_gpus: Count | None
    """GPUs of the trainer; null = `num_processes`, or the slots of the hostfile."""
    rollout_tokens: Count | None
    """Mean tokens of a rollout, prompts and tool outputs included; null = 0.4 of `policy.context_tokens`."""
    generated_share: Annotated[float, Field(gt=0.0, lt=1.0)] | None
    """Share of a rollout's tokens that the policy writes, (0, 1); null = 0.37."""
    policy_config: str | None
    """`config.json` of a policy whose sizes are not known here, relative to the file it is named in."""


class Runtime(Section):
    """Paths, hosts, devices, ports, concurrency."""

    tracking_uri: str | None
    """MLflow server or store; null = sqlite in MIMO_HOME; none = no MLflow."""
    min_free_disk_gb: NonNegative
    """A run does not start with less disk free than this, GB."""
    sampler: SamplerRuntime
    """The serving engine."""
    trainer: TrainerRuntime
    """The training engine."""
    teachers: TeacherRuntime
    """Where teachers are read."""
    sandbox: SandboxRuntime
    """Boxes."""
    judge: JudgeRuntime
    """The grading model's endpoint."""
    plan: PlanRuntime
    """What `mimo plan` counts with."""
    prepare_concurrency: Count
    """Environments built at the same time."""
    fetch_attempts: Count
    """Times a download that a task needs is tried before prepare-env fails (pip tries again within each)."""
    heartbeat_s: Positive
    """Seconds between two progress lines when the output is no terminal."""
    harness_pool: Literal["local", "ray"]
    """Where rollouts are driven: this process, or Ray actors."""


class Tracking(Section):
    """What goes to MLflow; the files of a run are complete without it."""

    experiment: Annotated[str, Field(min_length=1)]
    """MLflow experiment."""
    traces_per_step: Annotated[int, Field(ge=0, le=16)]
    """Rollouts a step that become MLflow traces, at most 16."""
    artifact_limit_mb: Whole
    """Rollout files up to this size (MB) are uploaded whole; larger ones as an index and a sample."""
