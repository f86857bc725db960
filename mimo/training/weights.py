"""One weight update: export, check the folder, hand it to the engine, and let the canary confirm it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mimo.backends.base import Sampler, Trainer
from mimo.training.canary import Agreement, Canary, update_engine
from mimo.training.manifest import changed_tensors, check_export
from mimo.types import Json


@dataclass(frozen=True, kw_only=True, slots=True)
class CanaryReport:
    """A confirmed weight update: what agreed how well, what changed, and how long it took."""

    version: int
    agreement: Agreement
    bound: float
    noise_floor: float | None
    changed: int | None
    """Tensors that differ from the export before (`previous`); None when none was given."""
    manifest: Mapping[str, Json]
    export_s: float
    update_s: float
    canary_s: float

    def metrics(self) -> dict[str, float]:
        """The numbers by metric name."""
        found = {
            "canary/mean": self.agreement.mean,
            "canary/max": self.agreement.maximum,
            "canary/bound": self.bound,
            "time/export_s": self.export_s,
            "time/update_s": self.update_s,
            "time/canary_s": self.canary_s,
        }
        if self.noise_floor is not None:
            found["canary/noise_floor"] = self.noise_floor
        if self.changed is not None:
            found["weights/changed_tensors"] = self.changed
        return found


async def publish_and_update(
    trainer: Trainer,
    sampler: Sampler,
    folder: Path,
    version: int,
    canary: Canary,
    *,
    previous: Mapping[str, Json] | None = None,
    engine_started: bool = False,
) -> CanaryReport:
    """Export the trainer's weights to `folder`, give them to the engine as `version`, confirm them.

    Args:
        previous: manifest of the weights before, to count the tensors that changed and to compare layouts.
        engine_started: the engine is new (or its state unknown): measure the canary's bound again and show it
            a perturbed checkpoint first (bfloat16).

    Raises:
        EngineFailed: the export lacks a tensor, the engine did not confirm, or the canary saw other weights;
            the message has the numbers and the run must not go on sampling.
    """
    began = time.monotonic()
    manifest = await asyncio.to_thread(trainer.export, folder)
    check_export(folder, previous)
    exported = time.monotonic()
    if engine_started:
        updated = exported
        agreement = await canary.start(trainer, sampler, folder, version)
    else:
        await update_engine(sampler, folder, version)
        updated = time.monotonic()
        agreement = canary.judge(await canary.measure(trainer, sampler), version)
    assert canary.bound is not None
    return CanaryReport(
        version=version,
        agreement=agreement,
        bound=canary.bound,
        noise_floor=canary.noise_floor,
        changed=None if previous is None else len(changed_tensors(previous, manifest)),
        manifest=manifest,
        export_s=exported - began,
        update_s=updated - exported,
        canary_s=time.monotonic() - updated,
    )
