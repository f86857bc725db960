"""The recipe as typed, frozen models; limits and units stand under each field, values in base.yaml."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import ConfigDict, Field, model_validator

from mimo.recipe.model_base import Many, Section, Whole
from mimo.recipe.runtime import Runtime, SamplerRuntime, SandboxRuntime, Tracking, TrainerRuntime
from mimo.recipe.sections import (
    Audit,
    Canary,
    HarnessChoice,
    InitSizes,
    Policy,
    PrepareEnv,
    ProbeHacks,
    Sampling,
    SandboxChoice,
    SynthesizeRubrics,
    TaskLimits,
    Tasks,
)
from mimo.recipe.task_sources import FolderSource, GeneratedSource, PypiPairSource, TaskSource
from mimo.recipe.training_sections import (
    ColdStart,
    EntropySteering,
    Grading,
    LengthPenalty,
    MaskBounds,
    Mopd2,
    Optimizer,
    RlMixed,
    Shares,
    StopPassRate,
    TokenPenalty,
)
from mimo.types import Json

__all__ = [
    "BOOKKEEPING",
    "STAGE_NAMES",
    "Audit",
    "Canary",
    "ColdStart",
    "EntropySteering",
    "FolderSource",
    "GeneratedSource",
    "Grading",
    "HarnessChoice",
    "InitSizes",
    "LengthPenalty",
    "MaskBounds",
    "Mopd2",
    "Optimizer",
    "Policy",
    "PrepareEnv",
    "ProbeHacks",
    "PypiPairSource",
    "Recipe",
    "RlMixed",
    "Runtime",
    "SamplerRuntime",
    "Sampling",
    "SandboxChoice",
    "SandboxRuntime",
    "Shares",
    "StageName",
    "StopPassRate",
    "SynthesizeRubrics",
    "TaskLimits",
    "TaskSource",
    "Tasks",
    "TokenPenalty",
    "Tracking",
    "TrainerRuntime",
]

StageName = Literal[
    "prepare-env", "probe-hacks", "cold-start", "synthesize-rubrics", "rl-mixed", "mopd2", "audit"
]
STAGE_NAMES: tuple[StageName, ...] = get_args(StageName)
"""The stages in their order."""

BOOKKEEPING = ("schema", "name", "variant", "stages", "tracking", "runtime")
"""Keys that never change what a result is."""


class Recipe(Section):
    """A resolved recipe."""

    model_config = ConfigDict(populate_by_name=True)

    schema_version: Annotated[Literal[1], Field(alias="schema")]
    """Version of the recipe's keys; 1."""
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    """Name of the recipe, shown in runs; letters, digits, `.`, `_`, `-`."""
    variant: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    """What `mimo compare` groups by: pro, flash, …"""
    stages: Annotated[Many[StageName], Field(min_length=1)]
    """Stages that run, in their order."""
    policy: Policy
    """The model that is trained."""
    tasks: Tasks
    """The task set."""
    sandbox: SandboxChoice
    """Boxes tasks run in."""
    harness: HarnessChoice
    """How the policy acts."""
    sampling: Sampling
    """How turns are sampled."""
    prepare_env: PrepareEnv
    """The stage prepare-env."""
    probe_hacks: ProbeHacks
    """The stage probe-hacks."""
    cold_start: ColdStart | None
    """The stage cold-start; null leaves the other six."""
    synthesize_rubrics: SynthesizeRubrics
    """The stage synthesize-rubrics."""
    grading: Grading
    """How quality changes rewards and advantages."""
    rl_mixed: RlMixed
    """The stage rl-mixed."""
    mopd2: Mopd2
    """The stage mopd2."""
    canary: Canary
    """The check after every weight update."""
    audit: Audit
    """The stage audit."""
    tracking: Tracking
    """What goes to MLflow."""
    seed: Whole
    """Seed of everything random in the run."""
    runtime: Runtime
    """How and where it runs; never part of a result's identity."""

    @model_validator(mode="after")
    def _stages_in_order(self) -> Recipe:
        expected = tuple(name for name in STAGE_NAMES if name in self.stages)
        if self.stages != expected:
            raise ValueError(f"stages must be in this order, each once: {', '.join(expected)}")
        return self

    @model_validator(mode="after")
    def _fits_the_context(self) -> Recipe:
        context = self.policy.context_tokens
        for key, tokens in (
            ("sampling.turn_tokens", self.sampling.turn_tokens),
            ("harness.observation_tokens", self.harness.observation_tokens),
        ):
            if tokens >= context:
                raise ValueError(f"{key} {tokens} is not below policy.context_tokens {context}")
        return self

    @model_validator(mode="after")
    def _no_engine_shows_images(self) -> Recipe:
        blind = [name for name in self.stages if name not in ("prepare-env", "probe-hacks")]
        if self.policy.sees and blind:
            raise ValueError(
                f"policy.sees is true, and {', '.join(blind)} give a policy token ids only, never an image; "
                "with images only `stages: [prepare-env, probe-hacks]` can be run"
            )
        return self

    @model_validator(mode="after")
    def _judge_has_an_endpoint(self) -> Recipe:
        if self.grading.judge is not None and self.runtime.judge.url is None:
            raise ValueError("grading.judge is set and runtime.judge.url is not")
        return self

    @model_validator(mode="after")
    def _docker_keys_are_docker_s(self) -> Recipe:
        asked = {
            "sandbox.image": self.sandbox.image,
            "runtime.sandbox.runtime": self.runtime.sandbox.runtime,
            "runtime.sandbox.hosts": self.runtime.sandbox.hosts or None,
        }
        named = [key for key, value in asked.items() if value is not None]
        if named and self.sandbox.backend != "docker":
            raise ValueError(f"{', '.join(named)}: only sandbox.backend docker has that, not local")
        return self

    def section(self, key: str) -> dict[str, Json]:
        """The part of the recipe under a dotted key as plain JSON data: `section("rl_mixed.mask")`.

        Raises:
            KeyError: no such key, or it holds no mapping (`cold_start: null`).
        """
        node = self.data()
        for part in key.split("."):
            below = node[part]
            if not isinstance(below, dict):
                raise KeyError(key)
            node = below
        return node

    def data(self) -> dict[str, Json]:
        """The whole recipe as plain JSON data, with the keys of the YAML."""
        dumped: dict[str, Json] = self.model_dump(mode="json", by_alias=True)
        return dumped

    def semantic(self) -> dict[str, Json]:
        """What results depend on: everything but `BOOKKEEPING`."""
        return {key: value for key, value in self.data().items() if key not in BOOKKEEPING}
