"""What keeps a recipe from running as it is written: memory, disk, an optimiser that the trainer refuses."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mimo.backends.base import TrainerConfig
from mimo.backends.deepspeed import check_config
from mimo.errors import RecipeError
from mimo.pipeline.estimate import assumptions as known
from mimo.pipeline.estimate.assumptions import Assumed
from mimo.pipeline.estimate.hardware import Card, Hardware
from mimo.pipeline.estimate.memory import GIB, TrainerMemory, host_gib, longest_row, trainer_memory
from mimo.pipeline.estimate.policy_facts import PolicyFacts
from mimo.pipeline.estimate.problem import Problem
from mimo.recipe.models import Recipe

if TYPE_CHECKING:
    from mimo.pipeline.estimate.estimate import StageEstimate

MOST_GPUS = 65536
SLOW_S = 6 * 3600.0


def find_problems(
    recipe: Recipe,
    facts: PolicyFacts | None,
    hardware: Hardware,
    stages: Mapping[str, StageEstimate],
    *,
    disk_bytes: float,
    home: Path | None,
) -> list[Problem]:
    """All of them, one line each; empty = it fits as far as this can tell."""
    found = list(_refused(recipe, hardware, stages))
    found += list(_disk(recipe, disk_bytes, home))
    found += list(_judged(recipe, stages))
    if facts is None:
        found.append(
            Problem(
                what=f"the sizes of {recipe.policy.source} are not known here: no memory, no hours, no cost",
                change="name its config.json in runtime.plan.policy_config (download that one file)",
                stops=False,
            )
        )
        return found
    if hardware.card is None:
        return found + list(_host(recipe, hardware, stages))
    found += list(_sampler(recipe, hardware.card, stages))
    found += list(_trainer(recipe, facts, hardware, hardware.card, stages))
    found += list(_together(recipe, hardware, hardware.card, stages))
    found += list(_reading(facts, hardware))
    found += list(_teachers(recipe, hardware, hardware.card, stages))
    return found + list(_slow(recipe, stages))


def _refused(recipe: Recipe, hardware: Hardware, stages: Mapping[str, StageEstimate]) -> Iterator[Problem]:
    """What the trainer would refuse at its start, in its own words; equal ones once."""
    trainer, said = recipe.runtime.trainer, set()
    for name, stage in stages.items():
        if not stage.work.steps:
            continue
        cold = recipe.cold_start if name == "cold-start" else None
        optimizer = cold.optimizer if cold is not None else recipe.rl_mixed.optimizer
        config = TrainerConfig(
            model_dir=Path(),
            compute_dtype=recipe.policy.dtype,
            optimizer=optimizer.model_dump(mode="json"),
            grad_clip=recipe.rl_mixed.grad_clip,
            seed=recipe.seed,
            device="cpu" if hardware.card is None else "cuda",
            num_processes=trainer.num_processes,
            zero_stage=trainer.zero_stage,
            micro_batch_tokens=trainer.micro_batch_tokens,
            deepspeed=trainer.deepspeed,
        )
        try:
            check_config(config)
        except RecipeError as error:
            if error.message not in said:
                said.add(error.message)
                yield Problem(what=f"{name}: {error.message}", change=error.hint or "see docs/training.md")


def _disk(recipe: Recipe, disk_bytes: float, home: Path | None) -> Iterator[Problem]:
    if home is None:
        return
    folder = next(path for path in (home, *home.parents) if path.is_dir())
    free, kept_free = shutil.disk_usage(folder).free, recipe.runtime.min_free_disk_gb * 1e9
    if disk_bytes + kept_free > free:
        yield Problem(
            what=f"{disk_bytes / 1e9:,.0f} GB of disk are needed at {home}, {free / 1e9:,.0f} GB are free "
            f"(runtime.min_free_disk_gb keeps {kept_free / 1e9:g} of them)",
            change="set MIMO_HOME to a larger disk, `mimo gc`, or lower rl_mixed.keep_checkpoints",
        )


def _sampler(recipe: Recipe, card: Card, stages: Mapping[str, StageEstimate]) -> Iterator[Problem]:
    memory = next((stage.sampler for stage in stages.values() if stage.sampler is not None), None)
    if memory is None or memory.sequences >= 1.0:
        return
    sampler, context = recipe.runtime.sampler, recipe.policy.context_tokens
    a_gpu = card.memory_gib * sampler.gpu_memory_utilization - memory.overhead
    whole = memory.weights * sampler.tensor_parallel + memory.kv_bytes_a_token * context / GIB
    needed = 2 ** math.ceil(math.log2(max(1.0, whole / a_gpu)))
    yield Problem(
        what=f"the sampler: weights take {memory.weights:,.0f} GiB of each GPU and leave no room for one "
        f"context of {context:,} tokens; a {card.name} gives {a_gpu + memory.overhead:.0f} GiB",
        change=f"runtime.sampler.tensor_parallel: {needed} or more (now {sampler.tensor_parallel})",
    )


def _trainer(
    recipe: Recipe,
    facts: PolicyFacts,
    hardware: Hardware,
    card: Card,
    stages: Mapping[str, StageEstimate],
) -> Iterator[Problem]:
    needs = {name: stage.trainer for name, stage in stages.items() if stage.trainer is not None}
    if not needs:
        return
    stage, memory = max(needs.items(), key=lambda item: item[1].total)
    if memory.total <= card.memory_gib:
        return
    yield Problem(
        what=f"the trainer ({stage}): {memory.total:,.0f} GiB a GPU ({_said(memory)}); a {card.name} has "
        f"{card.memory_gib:.0f}",
        change=_what_fits(recipe, facts, hardware, card, memory),
    )


def _together(
    recipe: Recipe, hardware: Hardware, card: Card, stages: Mapping[str, StageEstimate]
) -> Iterator[Problem]:
    """Taking turns: what the trainer keeps beside the sampler awake, and all it needs beside it asleep."""
    needs = {name: stage.trainer for name, stage in stages.items() if stage.trainer is not None}
    share = recipe.runtime.sampler.gpu_memory_utilization
    if not needs or not hardware.shared:
        return
    stage, memory = max(needs.items(), key=lambda item: item[1].kept)
    if memory.kept < card.memory_gib < memory.kept + share * card.memory_gib:
        fits = math.floor(100 * (1.0 - memory.kept / card.memory_gib)) / 100
        yield Problem(
            what=f"the trainer ({stage}) keeps {memory.kept:,.0f} GiB of a GPU between steps, the sampler "
            f"takes {share * card.memory_gib:,.0f} when it is awake; a {card.name} has {card.memory_gib:.0f}",
            change=f"runtime.sampler.gpu_memory_utilization: {fits:g} or less (now {share:g})",
        )
    stage, memory = max(needs.items(), key=lambda item: item[1].total)
    asleep = Assumed()(known.SLEEPING_SAMPLER_GIB)
    if memory.total <= card.memory_gib < memory.total + asleep:
        yield Problem(
            what=f"the trainer ({stage}) takes {memory.total:,.1f} GiB of a GPU, the sleeping sampler "
            f"{asleep:g}; a {card.name} has {card.memory_gib:.1f}",
            change="runtime.trainer.recompute: true, or shorter policy.context_tokens",
        )


def _said(memory: TrainerMemory) -> str:
    states = memory.weights + memory.gradients + memory.optimizer
    masks = f", its attention masks {memory.masks:,.0f}" if memory.masks > 0.01 * memory.total else ""
    return (
        f"weights, gradients, optimiser {states:,.0f}; activations of a row of {memory.row_tokens:,} tokens "
        f"{memory.activations:,.0f}{masks}"
    )


def _what_fits(
    recipe: Recipe, facts: PolicyFacts, hardware: Hardware, card: Card, memory: TrainerMemory
) -> str:
    """The least number of GPUs under ZeRO 3 and the longest row that fit together."""
    left = card.memory_gib - memory.overhead
    row = memory.activations + memory.masks
    advice = []
    if row > 0.5 * left and not recipe.runtime.trainer.recompute:
        advice.append("runtime.trainer.recompute: true (keeps each layer's input only)")
    if row > 0.5 * left:
        longest = longest_row(facts, recipe, 0.5 * left)
        advice.append(
            f"policy.context_tokens: {longest} (a whole row's activations in half of the card)"
            if longest
            else "no row of 1,024 tokens fits: a smaller policy"
        )
    room = left - min(row, 0.5 * left)
    gpus = hardware.trainer_gpus
    while gpus < MOST_GPUS and _states(recipe, facts, hardware, gpus) > room:
        gpus *= 2
    if _states(recipe, facts, hardware, gpus) <= room and (
        gpus > hardware.trainer_gpus or recipe.runtime.trainer.zero_stage < 3
    ):
        advice.append(
            f"runtime.trainer.zero_stage: 3 with adamw on {gpus} GPUs (now {hardware.trainer_gpus})"
        )
    return "; ".join(advice) or "a card with more memory"


def _states(recipe: Recipe, facts: PolicyFacts, hardware: Hardware, gpus: int) -> float:
    """GiB a GPU of weights, gradients and AdamW's state under ZeRO 3 on so many GPUs."""
    trainer = recipe.runtime.trainer.model_copy(update={"zero_stage": 3})
    split = recipe.model_copy(update={"runtime": recipe.runtime.model_copy(update={"trainer": trainer})})
    many = replace(hardware, trainer_gpus=gpus)
    memory = trainer_memory(split, facts, many, Assumed(), optimizer="adamw")
    return memory.weights + memory.gradients + memory.optimizer


def _reading(facts: PolicyFacts, hardware: Hardware) -> Iterator[Problem]:
    """Every process reads the whole policy in float32 before it goes to its GPU."""
    ranks = min(hardware.trainer_gpus, 8)
    needed = host_gib(facts, ranks)
    if hardware.memory_gib is not None and needed > hardware.memory_gib:
        yield Problem(
            what=f"the trainer's {ranks} processes read {needed:,.0f} GiB into main memory when they start; "
            f"this machine has {hardware.memory_gib:,.0f}",
            change="fewer processes on a machine (slots of the hostfile), or a smaller policy",
        )


def _teachers(
    recipe: Recipe, hardware: Hardware, card: Card, stages: Mapping[str, StageEstimate]
) -> Iterator[Problem]:
    """Teachers that were to be read on GPUs and have no room there; or on a CPU, and main memory has none."""
    for name, stage in stages.items():
        found = stage.teachers
        if found is None or found.gpus:
            continue
        asked = recipe.runtime.teachers.device == "cuda"
        if found.wanted:
            yield Problem(
                what=f"{name}: a teacher takes {found.reading:,.0f} GiB of a GPU beside {found.beside:,.0f} "
                f"of trainer and sleeping sampler; a {card.name} has {card.memory_gib:.0f}"
                + ("" if asked else ", so that the CPU will read it"),
                change="runtime.trainer.zero_stage: 3 or more GPUs, shorter policy.context_tokens, a smaller "
                "policy, or no mopd2 (a teacher is not split over GPUs)",
                stops=asked,
            )
        if hardware.memory_gib is not None and found.host > hardware.memory_gib:
            yield Problem(
                what=f"{name}: a teacher read on the CPU takes {found.host:,.0f} GiB of main memory; this "
                f"machine has {hardware.memory_gib:,.0f}",
                change="a smaller policy, or no mopd2",
            )


def _host(recipe: Recipe, hardware: Hardware, stages: Mapping[str, StageEstimate]) -> Iterator[Problem]:
    """On a CPU trainer, server and boxes share the machine's memory."""
    trainers = [stage.trainer.total for stage in stages.values() if stage.trainer is not None]
    servers = [stage.sampler.total for stage in stages.values() if stage.sampler is not None]
    ranks = recipe.runtime.trainer.num_processes
    needed = max(trainers, default=0.0) * ranks + max(servers, default=0.0)
    if hardware.memory_gib is not None and needed > hardware.memory_gib:
        yield Problem(
            what=f"trainer and sampler take {needed:.1f} GiB together; this machine has "
            f"{hardware.memory_gib:.1f}",
            change="lower policy.keep_layers, runtime.trainer.micro_batch_tokens or policy.context_tokens",
        )


def _judged(recipe: Recipe, stages: Mapping[str, StageEstimate]) -> Iterator[Problem]:
    """A grading model's cost, which nothing in the recipe tells."""
    if recipe.grading.judge is not None and "rl-mixed" in stages:
        yield Problem(
            what=f"grading.judge {recipe.grading.judge.model}: its endpoint's cost is not in the estimate "
            "(in the paper graders were 12.7 % of RL's cost)",
            change="nothing, if it is yours anyway; else add its price",
            stops=False,
        )


def _slow(recipe: Recipe, stages: Mapping[str, StageEstimate]) -> Iterator[Problem]:
    """What leaves GPUs idle for hours."""
    for name, stage in stages.items():
        parts = stage.parts or {}
        scoring, seconds = parts.get("scoring", 0.0), stage.seconds or 0.0
        on_cpu = stage.teachers is not None and not stage.teachers.gpus
        if on_cpu and scoring > max(SLOW_S, 0.3 * seconds):
            yield Problem(
                what=f"{name}: {scoring / 3600:,.0f} of {seconds / 3600:,.0f} hours go into teachers, which "
                "transformers reads on the CPUs of one machine",
                change="fewer samples (mopd2.samples_per_step, mopd2.steps), shorter rollouts, or no mopd2",
                stops=False,
            )
    boxes = recipe.runtime.sandbox.concurrency * max(1, len(recipe.runtime.sandbox.hosts))
    wanted = recipe.rl_mixed.groups_per_step * recipe.rl_mixed.group_size
    if "rl-mixed" in stages and boxes < wanted:
        yield Problem(
            what=f"rl-mixed: {boxes} boxes at a time for {wanted:,} rollouts a step keep the sampler waiting",
            change="runtime.sandbox.concurrency, or more runtime.sandbox.hosts",
            stops=False,
        )
