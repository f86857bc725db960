"""The estimate of a recipe: each stage's memory, tokens, disk, hours, cost; what does not fit."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from mimo.pipeline.estimate.assumptions import Assumed, Assumption
from mimo.pipeline.estimate.count import all_work
from mimo.pipeline.estimate.cpu_time import CpuTime
from mimo.pipeline.estimate.disk import kept_bytes, passing_bytes
from mimo.pipeline.estimate.fit import find_problems
from mimo.pipeline.estimate.flops import weight_bytes
from mimo.pipeline.estimate.gpu_time import GpuTime
from mimo.pipeline.estimate.hardware import Hardware
from mimo.pipeline.estimate.memory import SamplerMemory, TrainerMemory, sampler_memory, trainer_memory
from mimo.pipeline.estimate.policy_facts import PolicyFacts, policy_facts
from mimo.pipeline.estimate.problem import Problem
from mimo.pipeline.estimate.teachers import Teachers, teachers_of
from mimo.pipeline.estimate.work import RolloutSize, Work, rollout_size
from mimo.recipe.models import Recipe
from mimo.types import Json


@dataclass(frozen=True, kw_only=True, slots=True)
class StageEstimate:
    """One stage. `parts` are its seconds by what they go into; None where the policy's sizes are unknown.

    `trainer`, `sampler` and `teachers` are None for a stage that uses none of them.
    """

    work: Work
    parts: Mapping[str, float] | None
    trainer: TrainerMemory | None
    sampler: SamplerMemory | None
    teachers: Teachers | None
    disk_bytes: float
    gpus: int
    usd: float | None

    @property
    def seconds(self) -> float | None:
        """All of it."""
        return None if self.parts is None else sum(self.parts.values())

    def as_json(self) -> dict[str, Json]:
        """The same as JSON data; numbers are not rounded."""
        return {
            "work": self.work.as_json(),
            "seconds": self.seconds,
            "parts": None if self.parts is None else cast("dict[str, Json]", dict(self.parts)),
            "gpus": self.gpus,
            "trainer_gib": None if self.trainer is None else self.trainer.as_json(),
            "sampler_gib": None if self.sampler is None else self.sampler.as_json(),
            "teachers_gib": None if self.teachers is None else self.teachers.as_json(),
            "disk_bytes": self.disk_bytes,
            "usd": self.usd,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """All of it. `policy` is None where its sizes are not known; `disk_peak_bytes` counts kept results, the
    policy's copy and what the largest stage needs besides."""

    policy: PolicyFacts | None
    size: RolloutSize
    hardware: Hardware
    stages: Mapping[str, StageEstimate]
    disk_peak_bytes: float
    problems: tuple[Problem, ...]
    assumptions: tuple[Assumption, ...]

    def seconds(self, shares: Mapping[str, float]) -> float | None:
        """Seconds of the stages in `shares`, of each the share given; None if one is unknown."""
        found = [(self.stages[name].seconds, share) for name, share in shares.items() if name in self.stages]
        if any(seconds is None for seconds, _ in found):
            return None
        return sum(float(seconds or 0.0) * share for seconds, share in found)

    def usd(self, shares: Mapping[str, float]) -> float | None:
        """The same in USD; None without GPUs (a CPU has no price here)."""
        found = [(self.stages[name].usd, share) for name, share in shares.items() if name in self.stages]
        if not found or any(usd is None for usd, _ in found):
            return None
        return sum(float(usd or 0.0) * share for usd, share in found)


def estimate(
    recipe: Recipe,
    hardware: Hardware,
    *,
    home: Path | None = None,
    waiting: Collection[str] | None = None,
) -> Estimate:
    """The estimate of every stage in full, whatever of it is done already; nothing runs, nothing is written.

    Args:
        home: where results are kept, to compare disk; None = not compared.
        waiting: stages whose results are not there yet, for that comparison; None = all.

    Raises:
        RecipeError: a file that the recipe names cannot be read.
    """
    assumed = Assumed()
    facts = policy_facts(recipe)
    size = rollout_size(recipe, assumed)
    works = all_work(recipe, assumed)
    clock = None if facts is None else _clock(recipe, facts, size, hardware, assumed)
    stages = {
        name: _stage(recipe, work, facts, hardware, clock, size=size, assumed=assumed)
        for name, work in works.items()
    }
    peak = _peak(recipe, stages, facts)
    missing = {name: stage for name, stage in stages.items() if waiting is None or name in waiting}
    needed = _peak(recipe, missing, facts)
    found = find_problems(recipe, facts, hardware, stages, disk_bytes=needed, home=home)
    return Estimate(
        policy=facts,
        size=size,
        hardware=hardware,
        stages=stages,
        disk_peak_bytes=peak,
        problems=tuple(found),
        assumptions=tuple(assumed.used.values()),
    )


def _clock(
    recipe: Recipe, facts: PolicyFacts, size: RolloutSize, hardware: Hardware, assumed: Assumed
) -> CpuTime | GpuTime:
    if hardware.card is not None:
        return GpuTime(
            recipe=recipe, facts=facts, size=size, hardware=hardware, card=hardware.card, assumed=assumed
        )
    return CpuTime(recipe=recipe, facts=facts, size=size, cores=hardware.cores, assumed=assumed)


def _stage(
    recipe: Recipe,
    work: Work,
    facts: PolicyFacts | None,
    hardware: Hardware,
    clock: CpuTime | GpuTime | None,
    *,
    size: RolloutSize,
    assumed: Assumed,
) -> StageEstimate:
    samples = work.rollouts + work.untrained_rollouts > 0
    trainer = sampler = teachers = None
    if facts is not None and work.steps:
        optimizer, groups = _optimizer(recipe, work.stage), size if work.stage == "rl-mixed" else None
        trainer = trainer_memory(recipe, facts, hardware, assumed, optimizer=optimizer, groups=groups)
        teachers = teachers_of(recipe, facts, hardware, assumed, trainer) if work.scored else None
    if facts is not None and samples:
        sampler = sampler_memory(recipe, facts, hardware, assumed)
    reading_gpus = 0 if teachers is None else teachers.gpus
    parts = clock.parts(work, reading_gpus=reading_gpus) if clock is not None else None
    gpus = hardware.gpus if samples or work.steps else 0
    usd = None
    if parts is not None and hardware.card is not None:
        usd = sum(parts.values()) / 3600 * gpus * hardware.usd_gpu_hour
    return StageEstimate(
        work=work,
        parts=parts,
        trainer=trainer,
        sampler=sampler,
        teachers=teachers,
        disk_bytes=kept_bytes(work, facts, recipe.policy.dtype),
        gpus=gpus,
        usd=usd,
    )


def _optimizer(recipe: Recipe, stage: str) -> str:
    """The optimiser of a training stage; mopd2 uses that of rl_mixed."""
    if stage == "cold-start" and recipe.cold_start is not None:
        return recipe.cold_start.optimizer.name
    return recipe.rl_mixed.optimizer.name


def _peak(recipe: Recipe, stages: Mapping[str, StageEstimate], facts: PolicyFacts | None) -> float:
    """Kept results, the policy's own copy, and what the largest of the stages needs besides."""
    dtype = recipe.policy.dtype
    kept = sum(stage.disk_bytes for stage in stages.values())
    copy = 0.0 if facts is None else weight_bytes(facts, dtype)
    return (
        kept + copy + max((passing_bytes(stage.work, facts, dtype) for stage in stages.values()), default=0.0)
    )
