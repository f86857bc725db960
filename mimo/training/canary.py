"""The canary: fixed token sequences that engine and trainer must agree on after every weight update.

Checksums and return codes of an engine lie (a tied head stays old, a missing layer only warns), its
probabilities do not. In float32 the mean difference must stay below a fixed bound. In bfloat16 the bound is a
multiple of the difference measured on weights known to be equal, and each time an engine starts a checkpoint
with a strongly perturbed head, and one with perturbed layers, have to be seen above it: a canary that cannot
see anything, or an engine that drops one of the two, is an error, not a pass.
"""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mimo.backends.base import Sampler, Scorer
from mimo.backends.weight_layout import tensor_layout
from mimo.errors import EngineFailed
from mimo.recipe.models import Canary as CanarySettings

Part = Literal["head", "layers"]
Logprobs = Sequence[Sequence[float]]
"""Per sequence, of each token but the first."""
_PARTS: tuple[Part, ...] = ("head", "layers")
PERTURBED_VERSION = -1
"""Weight version of a perturbed checkpoint; no rollout is ever sampled from it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Agreement:
    """How far engine and trainer are apart on the canary's tokens, in nats."""

    mean: float
    maximum: float
    tokens: int


def canary_sequences(
    vocabulary: int, settings: CanarySettings, *, seed: int, prompts: Sequence[Sequence[int]] = ()
) -> tuple[tuple[int, ...], ...]:
    """`settings.sequences` sequences of `settings.tokens` ids, equal for equal arguments.

    Up to half of them begin with the real `prompts` (their first tokens): on random ids alone bfloat16 noise
    is large enough for a stale head to hide in.
    """
    draw = random.Random(f"canary-{seed}-{vocabulary}")
    sequences = [
        tuple(draw.randrange(vocabulary) for _ in range(settings.tokens)) for _ in range(settings.sequences)
    ]
    for place, prompt in enumerate(prompts[: settings.sequences // 2]):
        head = tuple(int(token) for token in prompt[: settings.tokens])
        sequences[place] = head + sequences[place][len(head) :]
    return tuple(sequences)


class Canary:
    """The check, with its sequences and the bound in force. Call `start` whenever an engine was started."""

    def __init__(
        self, sequences: Sequence[Sequence[int]], settings: CanarySettings, *, exact: bool, seed: int
    ) -> None:
        """`exact`: engine and trainer both compute in float32."""
        self.sequences = tuple(tuple(ids) for ids in sequences)
        self._settings = settings
        self._exact = exact
        self._seed = seed
        self.bound: float | None = settings.float32_mean if exact else None
        """Largest mean difference allowed; None until `start` has measured the noise (bfloat16)."""
        self.noise_floor: float | None = None

    async def start(self, trainer: Scorer, sampler: Sampler, folder: Path, version: int) -> Agreement:
        """Agreement on equal weights, after the engine was given `folder`, an export, as `version`.

        In bfloat16 this measures the noise floor, sets the bound, shows the engine perturbed copies of
        `folder` and gives it the right weights back.

        Raises:
            EngineFailed: the perturbation is not seen, or the weights do not agree after it.
        """
        await update_engine(sampler, folder, version)
        ours = await self._ours(trainer)  # once: these weights stay, and a folder is read anew each time
        first = await self._agreement(ours, sampler)
        if self._exact:
            return self.judge(first, version)
        self.noise_floor = first.mean
        self.bound = max(first.mean * self._settings.bfloat16_noise_multiple, self._settings.float32_mean)
        for part in _PARTS:
            await self._see_perturbation(ours, sampler, folder, part)
        await update_engine(sampler, folder, version)
        return self.judge(await self._agreement(ours, sampler), version)

    async def measure(self, trainer: Scorer, sampler: Sampler) -> Agreement:
        """Score the sequences on both, one engine after the other (they may share cores)."""
        return await self._agreement(await self._ours(trainer), sampler)

    async def _ours(self, trainer: Scorer) -> Logprobs:
        return await asyncio.to_thread(trainer.score, self.sequences, temperature=1.0)

    async def _agreement(self, ours: Logprobs, sampler: Sampler) -> Agreement:
        theirs = await asyncio.gather(*(sampler.score(ids, temperature=1.0) for ids in self.sequences))
        gaps = [
            abs(a - b)
            for one, other in zip(ours, theirs, strict=True)
            for a, b in zip(one, other, strict=True)
        ]
        return Agreement(mean=sum(gaps) / len(gaps), maximum=max(gaps), tokens=len(gaps))

    def judge(self, found: Agreement, version: int) -> Agreement:
        """`found`, if it is within the bound.

        Raises:
            EngineFailed: it is not; the message has the numbers.
        """
        if self.bound is None:
            raise EngineFailed(
                "the canary has no bound yet", hint="call Canary.start after the engine started"
            )
        if not found.mean <= self.bound:
            raise EngineFailed(
                f"canary: engine and trainer differ after the update to weights {version}: "
                f"mean |logprob difference| {found.mean:.3g}, max {found.maximum:.3g} over {found.tokens} "
                f"tokens, bound {self.bound:.3g} (noise floor {self.noise_floor or 0:.3g})",
                hint="the engine holds other weights than the trainer; do not train on what it samples",
            )
        return found

    async def _see_perturbation(self, ours: Logprobs, sampler: Sampler, folder: Path, part: Part) -> None:
        perturbed = folder.with_name(f"{folder.name}.perturbed")
        relative = self._settings.perturbation
        try:
            await asyncio.to_thread(perturb, folder, perturbed, part, relative=relative, seed=self._seed)
            await update_engine(sampler, perturbed, PERTURBED_VERSION)
            seen = await self._agreement(ours, sampler)
        finally:
            shutil.rmtree(perturbed, ignore_errors=True)
        assert self.bound is not None
        if seen.mean <= self.bound:
            raise EngineFailed(
                f"canary: a {part} perturbed by {relative:g} is not seen: mean difference {seen.mean:.3g}, "
                f"bound {self.bound:.3g}, noise floor {self.noise_floor or 0:.3g}",
                hint="the engine dropped it, or the canary is blind: use more sequences, or a smaller "
                "canary.bfloat16_noise_multiple",
            )


def perturb(source: Path, target: Path, part: Part, *, relative: float, seed: int) -> list[str]:
    """A copy of a model folder with noise on its head or on its layers' matrices; their names.

    The noise is normal, its standard deviation `relative` times the tensor's own.
    """
    import torch
    from safetensors.torch import load_file, save_file

    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    generator = torch.Generator().manual_seed(seed)
    wanted = _names(target, part)
    for file in sorted(target.glob("*.safetensors")):
        tensors = load_file(file)
        for name in sorted(tensors.keys() & set(wanted)):
            kept = tensors[name].float()
            noise = torch.randn(kept.shape, generator=generator) * kept.std() * relative
            tensors[name] = (kept + noise).to(tensors[name].dtype)
        save_file(tensors, file, metadata={"format": "pt"})
    return wanted


def _names(model_dir: Path, part: Part) -> list[str]:
    if part == "head":
        return ["lm_head.weight"]
    layout = tensor_layout(model_dir)
    return [name for name, tensor in sorted(layout.items()) if ".layers." in name and len(tensor.shape) == 2]


async def update_engine(sampler: Sampler, folder: Path, version: int) -> None:
    """Give the engine the weights in `folder` and have it confirm version and emptied cache.

    Raises:
        EngineFailed: it did not.
    """
    update = await sampler.update_weights(folder, version)
    if not update.prefix_cache_reset or update.version != version:
        raise EngineFailed(
            f"the engine did not confirm weights {version} of {folder}: it reports version {update.version}, "
            f"prefix cache {'reset' if update.prefix_cache_reset else 'NOT reset'}"
        )
