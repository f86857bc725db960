"""Where mopd2 will read its teachers, and what memory that takes (as mimo.training.reading_place decides)."""

from __future__ import annotations

from dataclasses import dataclass

from mimo.pipeline.estimate import assumptions as known
from mimo.pipeline.estimate.assumptions import Assumed
from mimo.pipeline.estimate.flops import weight_bytes
from mimo.pipeline.estimate.hardware import Hardware
from mimo.pipeline.estimate.memory import GIB, TrainerMemory
from mimo.pipeline.estimate.policy_facts import PolicyFacts
from mimo.recipe.models import Recipe
from mimo.training.reading_place import WORK_BYTES, pass_bytes
from mimo.types import Json


@dataclass(frozen=True, kw_only=True, slots=True)
class Teachers:
    """One policy being read. `gpus` hold a copy each; 0 = the CPU reads, whether `wanted` there or not."""

    gpus: int
    reading: float
    """GiB of each GPU, or what each would need; 0 where none is meant."""
    host: float
    """GiB of main memory where the CPU reads: float32 weights."""
    beside: float
    """GiB of each GPU that trainer and sleeping sampler keep meanwhile."""
    wanted: bool
    """The recipe means GPUs."""

    def as_json(self) -> dict[str, Json]:
        """GiB by part."""
        return {"gpus": self.gpus, "reading": self.reading, "beside": self.beside, "host": self.host}


def teachers_of(
    recipe: Recipe,
    facts: PolicyFacts,
    hardware: Hardware,
    assumed: Assumed,
    trainer: TrainerMemory,
) -> Teachers:
    """Where they are read beside a trainer of that size: on the GPUs of one machine if these have room."""
    runtime, card = recipe.runtime, hardware.card
    asked = runtime.teachers.device
    meant = runtime.trainer.device if asked == "auto" else asked
    host = 4.0 * facts.exported / GIB
    if card is None or meant == "cpu":
        return Teachers(gpus=0, reading=0.0, host=host, beside=0.0, wanted=False)
    sizes: dict[str, Json] = {
        "hidden_size": facts.hidden,
        "vocab_size": facts.vocabulary,
        "intermediate_size": round(facts.feed_forward),
    }
    longest = max(runtime.trainer.micro_batch_tokens, recipe.policy.context_tokens)
    activations = pass_bytes(sizes, longest, recipe.policy.dtype) + WORK_BYTES
    reading = (weight_bytes(facts, recipe.policy.dtype) + activations) / GIB
    beside = trainer.kept
    if hardware.shared:
        beside += assumed(known.SLEEPING_SAMPLER_GIB)
    if reading + beside > card.memory_gib:
        return Teachers(gpus=0, reading=reading, host=host, beside=beside, wanted=True)
    gpus = max(hardware.trainer_gpus, hardware.sampler_gpus if hardware.shared else 0)
    machine = round(assumed(known.GPUS_A_MACHINE))
    return Teachers(gpus=min(gpus, machine), reading=reading, host=0.0, beside=beside, wanted=True)
