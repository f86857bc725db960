"""Sampler and trainer on the same GPUs take turns: the sampler sleeps while the trainer's rows need the room.

Awake, the sampler holds `runtime.sampler.gpu_memory_utilization` of each GPU beside what the trainer keeps
between steps (weights, optimiser); asleep it holds about nothing, its weights wait in main memory.
"""

from __future__ import annotations

import time

from mimo.backends.base import Pausable
from mimo.backends.devices import pick_device
from mimo.errors import EngineFailed
from mimo.recipe.models import Recipe


def share_gpus(recipe: Recipe) -> bool:
    """Whether a server of ours and the trainer are on the same GPUs, both on this machine."""
    runtime = recipe.runtime
    if runtime.sampler.urls or runtime.trainer.hostfile is not None:
        return False
    return pick_device(runtime.sampler.device) == pick_device(runtime.trainer.device) == "cuda"


async def trainers_turn(sampler: Pausable) -> float:
    """Free the sampler's GPU memory; seconds it took, 0 where it sleeps already. Its prefix cache is lost."""
    began = time.monotonic()
    if await sampler.is_sleeping():
        return 0.0
    await sampler.pause(sleep=True)
    return time.monotonic() - began


async def samplers_turn(sampler: Pausable) -> float:
    """Wake the sampler where it sleeps; seconds it took.

    Raises:
        EngineFailed: its memory is not to be had, or it does not answer.
    """
    began = time.monotonic()
    if not await sampler.is_sleeping():
        return 0.0
    try:
        await sampler.resume(wake_up=True)
    except EngineFailed as error:
        raise EngineFailed(
            f"the sampler did not wake up beside the trainer: {error.message}",
            hint="if its log says out of memory: lower runtime.sampler.gpu_memory_utilization (`mimo plan` "
            "says what fits) or raise runtime.trainer.zero_stage",
        ) from error
    return time.monotonic() - began
