"""The teachers of mopd2, and the student beside them, read from their folders where the recipe says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mimo.backends.devices import pick_device
from mimo.stages.base import StageContext
from mimo.stages.mopd2_samples import TEACHER_OF, Sample
from mimo.stages.mopd2_signal import ScoredSample, payload_of
from mimo.training.reader import Context, reading
from mimo.training.reading_place import ReadingPlace, choose_place, needed_bytes


def reading_place(ctx: StageContext, folders: Sequence[Path], contexts: Sequence[Context]) -> ReadingPlace:
    """Where `folders` are read on `contexts`, by what is free on the GPUs now; a fallback is counted.

    Raises:
        MachineLacks: the recipe names GPUs and none has room.
    """
    recipe = ctx.recipe
    asked, trainer = recipe.runtime.teachers.device, pick_device(recipe.runtime.trainer.device)
    budget = recipe.runtime.trainer.micro_batch_tokens
    longest = max((len(item.token_ids) for item in contexts), default=0)
    on_gpu = asked == "cuda" or (asked == "auto" and trainer == "cuda")
    place = choose_place(
        asked,
        trainer,
        dtype=recipe.policy.dtype,
        batch_tokens=budget,
        free=_free_bytes() if on_gpu else (),
        needed=needed_bytes(folders, longest=longest, batch_tokens=budget, dtype=recipe.policy.dtype)
        if on_gpu
        else 0,
    )
    if place.fallback:
        ctx.count("teachers read on the CPU", why=place.fallback)
    return place


def score_samples(
    ctx: StageContext,
    samples: Sequence[Sample],
    student: Path,
    teachers: Mapping[str, Path],
    *,
    temperature: float,
) -> list[ScoredSample]:
    """Both sides of every gap, over the same passes: equal weights give a gap of exactly 0.

    One policy is in memory at a time: the student, then each teacher that has samples.
    """
    if not samples:
        return []
    contexts = [_context(sample) for sample in samples]
    place = reading_place(ctx, [student, *teachers.values()], contexts)
    shares = {
        name: [number for number, sample in enumerate(samples) if TEACHER_OF[sample.kind] == name]
        for name in teachers
    }
    ours: dict[int, NDArray[np.float32]] = {}
    theirs: dict[int, NDArray[np.float32]] = {}
    with reading(student, place) as policy:
        for share in shares.values():
            found = policy.logprobs([contexts[number] for number in share], temperature=temperature)
            ours |= dict(zip(share, found, strict=True))
    for name, share in shares.items():
        if share:
            with reading(teachers[name], place) as policy:
                found = policy.logprobs([contexts[number] for number in share], temperature=temperature)
            theirs |= dict(zip(share, found, strict=True))
    return [
        ScoredSample(sample=sample, policy_logprobs=ours[number], teacher_logprobs=theirs[number])
        for number, sample in enumerate(samples)
    ]


def _context(sample: Sample) -> Context:
    payload = payload_of(sample.finished)
    return Context(payload.token_ids, payload.loss_mask)


def _free_bytes() -> tuple[int, ...]:
    """Of each GPU that this process sees, whoever uses the rest."""
    import torch

    return tuple(torch.cuda.mem_get_info(number)[0] for number in range(torch.cuda.device_count()))
