"""One task drawn from (seed, split, index): a family, its plant, what surrounds it, a format, a layout.

Level 1: one file, one command, the input is one short line. Level 2: commands on lines, neighbours without a
bug, a gate that another command opens, two files. Level 3: binary records with a checksum, and a second bug
elsewhere, which does not count.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass

from mimo.domains.cyber.generated.carriers import BareLine, Carrier, CommandLines, Records
from mimo.domains.cyber.generated.families import FAMILIES
from mimo.domains.cyber.generated.plant import GUARD, Family, Plant, Step, Verb, Words
from mimo.domains.cyber.generated.surroundings import Gate, drawn_gate, drawn_neighbours
from mimo.domains.generated_source import families_of_split
from mimo.types import Split

LEVELS = (1, 2, 3)
_MODULES = ("store", "board", "ledger", "panel", "desk", "orders", "tools", "menu")
_C_HEADERS = ("<stdbool.h>", "<stdio.h>", "<stdlib.h>", "<string.h>")
_CPP_HEADERS = ("<cstdio>", "<cstdlib>", "<cstring>", "<string>", "<vector>")


@dataclass(frozen=True, kw_only=True, slots=True)
class Draw:
    """Everything that makes one generated task; `files` are sources by path in the work tree."""

    task_id: str
    family: Family
    level: int
    files: dict[str, str]
    planted_file: str
    function: str
    prose: str
    format: str
    trigger: bytes
    benign: bytes


def task_id(seed: int, split: Split, index: int, pool: tuple[Family, ...], level: int | None) -> str:
    """The opaque id of one generated task."""
    names = ",".join(entry.name for entry in pool)
    return "y" + hashlib.sha256(f"{seed}/{split}/{index}/{level}/{names}".encode()).hexdigest()[:12]


def families_for(split: Split, names: Sequence[str] | None, level: int | None) -> tuple[Family, ...]:
    """The families a source draws from, in order.

    Raises:
        RecipeError: an unknown family or level, or none left for this split.
    """
    return families_of_split("cyber", FAMILIES, LEVELS, split, names=names, level=level)


def draw(seed: int, split: Split, index: int, pool: tuple[Family, ...], level: int | None) -> Draw:
    """The task number `index` of a split; the same arguments give the same task, byte for byte."""
    rng = random.Random(f"mimo-cyber/{seed}/{split}/{index}")
    entry = pool[index % len(pool)]
    chosen = level if level is not None else rng.choice(LEVELS)
    w = Words(rng, chosen)
    plant = entry.plant(w)
    name = task_id(seed, split, index, pool, level)
    return _simple(name, entry, w, plant) if chosen == 1 else _surrounded(name, entry, w, plant)


def _simple(name: str, entry: Family, w: Words, plant: Plant) -> Draw:
    carrier = BareLine()
    path = f"{w.name(' '.join(_MODULES))}.{_suffix(entry)}"
    code = plant.code.replace(GUARD, "")
    return Draw(
        task_id=name,
        family=entry,
        level=1,
        files={path: f"{_includes(entry)}\n{code}\n{carrier.main(plant.verbs)}"},
        planted_file=path,
        function=plant.function,
        prose=plant.prose,
        format=carrier.prose(),
        trigger=carrier.encode(plant.trigger),
        benign=carrier.encode(plant.benign),
    )


def _surrounded(name: str, entry: Family, w: Words, plant: Plant) -> Draw:
    gate = drawn_gate(w)
    neighbours = drawn_neighbours(w, 2)
    decoy = _decoy(entry, w) if w.level > 2 else None
    verbs = [*plant.verbs, gate.verb, *(item.verb for item in neighbours), *(decoy.verbs if decoy else ())]
    w.rng.shuffle(verbs)
    carrier: Carrier = Records.drawn(w, verbs) if w.level > 2 else CommandLines()
    module, other = w.name(" ".join(_MODULES)), w.name(" ".join(_MODULES))
    planted = f"src/{module}.{_suffix(entry)}"
    beside = [item.code for item in neighbours] + ([decoy.code.replace(GUARD, "")] if decoy else [])
    lively = tuple(item.step for item in neighbours)
    return Draw(
        task_id=name,
        family=entry,
        level=w.level,
        files={
            "src/commands.h": _header(verbs),
            planted: _unit(entry, [gate.code, plant.code.replace(GUARD, gate.check)]),
            f"src/{other}.{_suffix(entry)}": _unit(entry, beside),
            f"src/main.{_suffix(entry)}": _unit(entry, [carrier.main(verbs)]),
        },
        planted_file=planted,
        function=plant.function,
        prose=plant.prose,
        format=carrier.prose(),
        trigger=carrier.encode(_opened(gate, plant.trigger)),
        benign=carrier.encode((*lively, *_opened(gate, plant.benign))),
    )


def _opened(gate: Gate, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    return (*gate.open_steps, *steps)


def _decoy(entry: Family, w: Words) -> Plant:
    """Another training family of the same language: its crash does not count, by type or by function."""
    others = [
        other
        for other in FAMILIES.values()
        if other.split == "train" and other.language == entry.language and other.name != entry.name
    ]
    return w.rng.choice(others).plant(w)


def _suffix(entry: Family) -> str:
    return "c" if entry.language == "c" else "cpp"


def _includes(entry: Family) -> str:
    return "".join(f"#include {name}\n" for name in (_C_HEADERS if entry.language == "c" else _CPP_HEADERS))


def _unit(entry: Family, parts: Sequence[str]) -> str:
    head = f'{_includes(entry)}\n#include "commands.h"\n'
    return "\n".join([head, *parts])


def _header(verbs: Sequence[Verb]) -> str:
    rows = "".join(
        f"void {function}(const char *text);\n" for function in sorted(verb.function for verb in verbs)
    )
    return f"#pragma once\n\n{rows}"
