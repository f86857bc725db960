"""What an estimate runs on: a card and how many, or the cores of this machine; and what an hour costs."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path

from mimo.errors import RecipeError
from mimo.recipe.machine import Machine
from mimo.recipe.models import Recipe
from mimo.types import Json


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """A GPU. Memory in GiB, `tflops` dense bfloat16, bandwidth in TB/s, the usual price of an hour in USD."""

    name: str
    memory_gib: float
    tflops: float
    bandwidth: float
    usd_hour: float


_CARDS = (
    ("b200", 179.0, 2250.0, 8.0, 4.5),
    ("gb200", 186.0, 2450.0, 8.0, 5.5),
    ("h200", 140.0, 989.0, 4.8, 3.0),
    ("h100", 79.6, 989.0, 3.35, 2.0),
    ("h800", 79.6, 989.0, 3.35, 2.0),
    ("h20", 95.6, 148.0, 4.0, 1.2),
    ("a100-80", 79.3, 312.0, 2.04, 1.3),
    ("a100-40", 39.4, 312.0, 1.56, 1.0),
    ("l40s", 45.0, 362.0, 0.864, 0.9),
    ("l4", 22.5, 121.0, 0.3, 0.4),
    ("a10g", 22.5, 70.0, 0.6, 0.5),
    ("rtx-4090", 24.0, 165.0, 1.01, 0.4),
    ("rtx-5090", 31.8, 209.0, 1.79, 0.6),
)
CARDS = {
    name: Card(name=name, memory_gib=memory, tflops=flops, bandwidth=speed, usd_hour=price)
    for name, memory, flops, speed, price in _CARDS
}
"""Vendors' data sheets (without sparsity); memory about as nvidia-smi shows it. Prices are round numbers for
machines rented by the hour, no quotes: your own goes into `runtime.plan.gpu_hour_usd`."""
PAPER_SCALE = "h100"
"""Counted with where the machine has no GPU and the recipe names none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Hardware:
    """Where stages run. `card` None: on the CPU, engines share its cores.

    `shared`: sampler and trainer take turns on the same GPUs. `chosen` says how the card came about.
    """

    card: Card | None
    chosen: str
    sampler_gpus: int
    trainer_gpus: int
    shared: bool
    cores: int
    memory_gib: float | None
    """Of the machine the trainer's processes are on; None when it is not this one."""
    usd_gpu_hour: float
    here: bool = True
    """True where this machine is counted with; else its cores and memory say nothing."""

    @property
    def gpus(self) -> int:
        """GPUs that are held for the whole run."""
        if self.card is None:
            return 0
        if self.shared:
            return max(self.sampler_gpus, self.trainer_gpus)
        return self.sampler_gpus + self.trainer_gpus

    def as_json(self) -> dict[str, Json]:
        """The same as JSON data."""
        return {
            "gpu": None if self.card is None else self.card.name,
            "chosen": self.chosen,
            "gpus": self.gpus,
            "sampler_gpus": self.sampler_gpus if self.card else 0,
            "trainer_gpus": self.trainer_gpus if self.card else 0,
            "shared": self.shared,
            "cores": self.cores if self.here else None,
            "memory_gib": self.memory_gib,
            "usd_gpu_hour": self.usd_gpu_hour if self.card else None,
        }


def hardware_of(recipe: Recipe, machine: Machine) -> Hardware:
    """The hardware that the recipe names, completed by this machine.

    Raises:
        RecipeError: no such card, or the hostfile cannot be read.
    """
    plan, sampler, trainer = recipe.runtime.plan, recipe.runtime.sampler, recipe.runtime.trainer
    named, chosen = _card(plan.gpu, machine)
    wanted = bool(machine.gpus) or plan.gpu is not None
    on_gpu = any(
        asked == "cuda" or (asked == "auto" and wanted) for asked in (sampler.device, trainer.device)
    )
    card, chosen = (named, chosen) if on_gpu else (None, "the CPU of this machine")
    a_server = sampler.tensor_parallel * sampler.data_parallel
    elsewhere = bool(sampler.urls) or trainer.hostfile is not None
    here = card is None or (bool(machine.gpus) and trainer.hostfile is None)
    return Hardware(
        card=card,
        chosen=chosen,
        sampler_gpus=plan.sampler_gpus or a_server * max(1, len(sampler.urls)),
        trainer_gpus=plan.trainer_gpus or _trainer_gpus(recipe),
        shared=not elsewhere,
        cores=max(1, machine.cores),
        memory_gib=machine.memory_gib if here else None,
        here=here,
        usd_gpu_hour=(
            plan.gpu_hour_usd if plan.gpu_hour_usd is not None else (card.usd_hour if card else 0.0)
        ),
    )


def _card(asked: str | None, machine: Machine) -> tuple[Card, str]:
    if asked is not None:
        if asked not in CARDS:
            close = difflib.get_close_matches(asked, CARDS, n=1)
            guess = f" (did you mean {close[0]}?)" if close else ""
            raise RecipeError(
                f"runtime.plan.gpu: {asked!r} is not known{guess}", hint=f"known: {', '.join(CARDS)}"
            )
        return CARDS[asked], "runtime.plan.gpu"
    if not machine.gpus:
        return CARDS[PAPER_SCALE], "assumed: this machine has no GPU and runtime.plan.gpu names none"
    mine = machine.gpus[0]
    known = known_card(mine.name, mine.memory_gib)
    if known is None:
        return CARDS[PAPER_SCALE], f"assumed: {mine.name} is not in the table; set runtime.plan.gpu"
    return known, f"this machine's {mine.name}"


def known_card(name: str, memory_gib: float) -> Card | None:
    """The card of the table that nvidia-smi calls `name`; its memory tells sizes of one card apart."""
    words = set(re.split(r"[^a-z0-9]+", name.lower()))
    for key in CARDS:
        head, _, size = key.partition("-")
        wanted = {head, size} if head == "rtx" else {head}
        if wanted <= words and (head == "rtx" or not size or abs(float(size) - memory_gib) < 10.0):
            return CARDS[key]
    return None


def _trainer_gpus(recipe: Recipe) -> int:
    trainer = recipe.runtime.trainer
    if trainer.hostfile is None or trainer.hostfile.startswith("${"):
        return trainer.num_processes
    try:
        text = Path(trainer.hostfile).read_text(encoding="utf-8")
    except OSError as error:
        raise RecipeError(f"runtime.trainer.hostfile: {trainer.hostfile}: {error.strerror}") from error
    slots = [int(found) for found in re.findall(r"^[^#\n]*\bslots\s*=\s*(\d+)", text, flags=re.MULTILINE)]
    if not slots:
        raise RecipeError(
            f"runtime.trainer.hostfile: {trainer.hostfile} names no machine",
            hint="a line is `NAME slots=GPUS`",
        )
    return sum(slots)
