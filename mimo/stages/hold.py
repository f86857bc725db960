"""Put a checkpoint's weights into the run's sampler, checked by the canary, without a trainer.

The other side of the canary is the checkpoint's own folder, read by transformers.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mimo.stages.base import StageContext

if TYPE_CHECKING:
    from mimo.backends.vllm import VllmSampler
    from mimo.training.canary import Canary


async def hold(
    ctx: StageContext, sampler: VllmSampler, canary: Canary, folder: Path, version: int
) -> dict[str, float]:
    """The canary's numbers after the update to `folder` as weight version `version`.

    Raises:
        EngineFailed: the sampler holds other weights than the folder.
    """
    from mimo.training.canary import update_engine
    from mimo.training.reference import FolderScorer

    scorer = FolderScorer(folder, ctx.recipe.policy.dtype)
    if canary.bound is None:
        found = await canary.start(scorer, sampler, folder, version)
    else:
        await update_engine(sampler, folder, version)
        found = canary.judge(await canary.measure(scorer, sampler), version)
    ctx.sampler_holds(folder, version)
    assert canary.bound is not None
    return {"canary/mean": found.mean, "canary/max": found.maximum, "canary/bound": canary.bound}
