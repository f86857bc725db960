"""How a training stage comes by its school: trainer and sampler side by side, and the canary's sequences."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mimo.recipe.training_sections import Optimizer
from mimo.rollouts.house import House
from mimo.stages.base import SamplerHandle, StageContext
from mimo.stages.engines import open_house, trainer_config
from mimo.stages.harness_choice import evaluation_harness
from mimo.stages.school import School
from mimo.stages.start import StartingPolicy
from mimo.stages.tasks import tasks_of
from mimo.stages.turns import share_gpus, trainers_turn

if TYPE_CHECKING:
    from mimo.backends.vllm import VllmSampler
    from mimo.training.canary import Canary


@asynccontextmanager
async def open_school(
    ctx: StageContext,
    stage: str,
    start: StartingPolicy,
    optimizer: Optimizer,
    *,
    grad_clip: float,
    keep: int,
    server: asyncio.Task[SamplerHandle] | None = None,
    publish: bool = True,
) -> AsyncIterator[School]:
    """A school on `start`, resumed; trainer and sampler come up side by side, the trainer ends with it.

    `server` is a sampler asked for earlier on the same starting policy; without `publish` the school is open
    before it is up. Where both are on the same GPUs the sampler comes first, and sleeps while the trainer
    starts.
    """
    from mimo.training.trainer import start_trainer

    server = server or asyncio.create_task(asyncio.to_thread(ctx.sampler, start.model_dir))
    config = trainer_config(ctx, start.model_dir, optimizer, grad_clip)
    sampler = asyncio.create_task(_connected(server, start.model_dir))
    try:
        if share_gpus(ctx.recipe):
            await trainers_turn(await sampler)
        trainer = await asyncio.to_thread(start_trainer, config)
        try:
            with open_house(ctx, start.model_dir, start.policy) as house:
                canary = canary_for(ctx, house, start.model_dir)
                school = School(ctx, stage, trainer, sampler, house, canary, keep=keep, grad_clip=grad_clip)
                await school.begin(start, publish=publish)
                yield school
            await school.close()
        finally:
            await asyncio.to_thread(trainer.close)
    finally:
        sampler.cancel()


async def _connected(server: asyncio.Task[SamplerHandle], reference_dir: Path) -> VllmSampler:
    """A client of the server, once it is up."""
    from mimo.backends.vllm import VllmSampler

    handle = await server
    return VllmSampler(handle.url, handle.version, reference_dir=reference_dir)


def canary_for(ctx: StageContext, house: House, model_dir: Path) -> Canary:
    """Sequences from the vocabulary, half of them beginning with real prompts."""
    from mimo.backends.policies import tokenizer_size
    from mimo.training.canary import Canary, canary_sequences

    settings = ctx.recipe.canary
    named = evaluation_harness(ctx.recipe)
    tasks = tasks_of(ctx, "train")[: settings.sequences]
    prompts = [house.renderer.opening_ids(house.harness(named(task)).opening(task)) for task in tasks]
    ids = canary_sequences(tokenizer_size(model_dir), settings, seed=ctx.recipe.seed, prompts=prompts)
    return Canary(ids, settings, exact=ctx.recipe.policy.dtype == "float32", seed=ctx.recipe.seed)
