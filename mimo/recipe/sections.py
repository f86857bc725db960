"""The parts of a recipe before training: policy, tasks, boxes, harness, sampling, environments, rubrics."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from mimo.recipe.model_base import Count, Many, Positive, Section, Share, Whole
from mimo.recipe.task_sources import TaskSource

PolicySource = Annotated[str, Field(pattern=r"^(hf:[^/\s]+/[^/\s]+|path:.+|package:[\w.]+|init:[\w-]+)$")]


class InitSizes(Section):
    """Sizes of a random policy (`source: init:NAME`)."""

    hidden_size: Annotated[int, Field(ge=8)]
    """Width of the residual stream; a multiple of `heads`."""
    layers: Count
    """Transformer layers."""
    heads: Count
    """Attention heads; a multiple of `kv_heads`."""
    kv_heads: Count
    """Key-value heads."""
    mlp_size: Count
    """Width of the feed-forward layer."""
    seed: Whole
    """Seed of the random weights."""

    @model_validator(mode="after")
    def _divisible(self) -> InitSizes:
        if self.hidden_size % self.heads:
            raise ValueError(f"hidden_size {self.hidden_size} is no multiple of heads {self.heads}")
        if self.heads % self.kv_heads:
            raise ValueError(f"heads {self.heads} is no multiple of kv_heads {self.kv_heads}")
        return self


class Policy(Section):
    """The model that is trained."""

    source: PolicySource
    """hf:ORG/NAME, path:DIR, package:MODULE (weights in an installed package) or init:NAME (random)."""
    tokenizer: str | None
    """Tokenizer; null = the policy's own; builtin:small-2048 for init: policies."""
    keep_layers: Count | None
    """Number of layers to keep, evenly spaced; null = all."""
    drop_layers: Many[Whole] | None
    """Layers to leave out, by index from 0, instead of `keep_layers`; null = none."""
    init: InitSizes | None
    """Sizes of an init: policy; null for every other source."""
    dtype: Literal["bfloat16", "float32"]
    """Compute type of engine and trainer; master weights are float32."""
    context_tokens: Annotated[int, Field(ge=64)]
    """Longest context of a rollout, tokens."""
    sees: bool
    """Whether the policy is given images; false: prepare-env rejects tasks that need sight, by name."""

    @model_validator(mode="after")
    def _init_has_sizes(self) -> Policy:
        random = self.source.startswith("init:")
        if random and (self.init is None or self.tokenizer is None):
            raise ValueError(f"source {self.source} needs `init` (sizes) and `tokenizer`")
        if not random and self.init is not None:
            raise ValueError(
                f"`init` is set, but source {self.source} brings its own weights; set init: null"
            )
        return self

    @model_validator(mode="after")
    def _layers_are_told_once(self) -> Policy:
        dropped = self.drop_layers or ()
        if dropped and self.keep_layers is not None:
            raise ValueError(
                "`keep_layers` and `drop_layers` both choose the layers; set one of them to null"
            )
        if len(set(dropped)) < len(dropped):
            raise ValueError("drop_layers names a layer twice")
        return self


class TaskLimits(Section):
    """What the box of a policy may use."""

    wall_s: Positive
    """Life of the box, seconds."""
    turn_s: Positive
    """One turn, model and tool together, seconds."""
    command_s: Positive
    """One command, seconds."""
    memory_mb: Annotated[int, Field(ge=16)]
    """Memory, MiB."""
    processes: Annotated[int, Field(ge=2)]
    """Processes and threads alive at the same time."""
    disk_mb: Count
    """Bytes written to the work tree, MiB."""
    output_bytes: Annotated[int, Field(ge=256)]
    """Bytes kept of one command's output."""

    @model_validator(mode="after")
    def _nested(self) -> TaskLimits:
        if not self.command_s <= self.turn_s <= self.wall_s:
            raise ValueError(
                f"command_s {self.command_s:g}, turn_s {self.turn_s:g}, wall_s {self.wall_s:g} must not fall"
            )
        return self


class Tasks(Section):
    """The task set."""

    sources: Annotated[Many[TaskSource], Field(min_length=1)]
    """Entries of kind generated, pypi-pair or folder, at least one."""
    limits: TaskLimits
    """Limits of every box a policy acts in."""


class SandboxChoice(Section):
    """Which boxes tasks run in."""

    backend: Literal["local", "docker"]
    """local (bubblewrap) or docker."""
    image: Annotated[str, Field(pattern=r"^(.+@)?sha256:[0-9a-f]{64}$")] | None
    """docker: the image boxes are made of, pinned (`sha256:…` or `NAME@sha256:…`) and on every host already;
    with bash, GNU coreutils and what the tests need. null = this machine's Python and core tools."""


class HarnessChoice(Section):
    """How the policy acts."""

    names: Annotated[Many[str], Field(min_length=1)]
    """Harnesses, one a group; recombined by name."""
    max_turns: Count
    """Model turns of a rollout."""
    observation_tokens: Annotated[int, Field(ge=16)]
    """Longest tool output kept in the context, tokens."""


class Sampling(Section):
    """How turns are sampled."""

    temperature: Annotated[float, Field(gt=0.0, le=2.0)]
    """Softmax temperature, (0, 2]."""
    top_p: Annotated[float, Field(gt=0.0, le=1.0)]
    """Nucleus mass, (0, 1]; 1 = the whole distribution."""
    turn_tokens: Count
    """Longest model turn, tokens."""


class PrepareEnv(Section):
    """prepare-env: environments from task sources."""

    reruns: Count
    """Runs of the reference gate and of the do-nothing gate; all must agree."""
    history: Literal["past", "none"]
    """past = git history up to the base commit; none = one commit."""
    max_rejected_share: Share
    """The stage fails when more than this share of the tasks is rejected."""


class ProbeHacks(Section):
    """probe-hacks: look for leaks, scrub, look again."""

    clean_rounds: Count
    """Rounds in a row without a finding that make an environment clean."""
    max_rounds: Count
    """Rounds after which an environment that still leaks is quarantined."""

    @model_validator(mode="after")
    def _reachable(self) -> ProbeHacks:
        if self.clean_rounds > self.max_rounds:
            raise ValueError(f"clean_rounds {self.clean_rounds} is above max_rounds {self.max_rounds}")
        return self


class SynthesizeRubrics(Section):
    """synthesize-rubrics: rubrics from the contrast between attempts."""

    attempts_per_task: Annotated[int, Field(ge=2)]
    """Attempts sampled for each task; a contrast needs two."""
    min_separating: Count
    """Criteria that must tell attempts apart, or the rubric is dropped."""


class Canary(Section):
    """The check that engine and trainer hold the same weights, after every weight update."""

    sequences: Count
    """Fixed token sequences scored by both."""
    tokens: Annotated[int, Field(ge=2)]
    """Length of each, tokens."""
    float32_mean: Positive
    """Mean |logprob difference| allowed in float32, nats."""
    bfloat16_noise_multiple: Annotated[float, Field(ge=1.0)]
    """In bfloat16 the bound is this times the noise measured when the engine starts."""
    perturbation: Positive
    """Relative weight noise that must be seen at each bfloat16 engine start."""


class Audit(Section):
    """audit: hack audit of everything, held-out evaluation, the gate."""

    heldout_rollouts_per_task: Count
    """Rollouts of each held-out task and policy."""
    train_rollouts_per_task: Whole
    """Rollouts of each training task and policy; 0 = no evaluation on training tasks."""
    base_rollouts_per_task: Count
    """At most so many of a task for the base policy, whose rollouts are the longest and mostly fail."""
    heldout_harnesses: Many[str]
    """Harnesses that no training stage uses: held-out tasks are tried in them as well; [] = none."""
    max_hack_share: Share
    """Gate: share of audited rollouts with a confirmed hack that is still let through, in the whole run and
    in every stage with enough of them; above it the run ends with exit code 4."""
    gate_min_rollouts: Count
    """Below this number of audited rollouts a share is reported, not judged."""
    max_corrections: Whole
    """Most faulty turns written to `corrections.jsonl` for a later cold start; the others are counted."""
    confidence: Annotated[float, Field(gt=0.5, lt=1.0)]
    """Level of the intervals, (0.5, 1)."""
