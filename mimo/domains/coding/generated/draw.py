"""One task drawn from (seed, split, index): a family, its spelling, a bug, a layout, and the tests."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from mimo.domains.coding.generated.behavior import outcomes
from mimo.domains.coding.generated.families import FAMILIES
from mimo.domains.coding.generated.family import Family, Spelling
from mimo.domains.coding.generated.layouts import Layout, pick_layout
from mimo.domains.coding.generated.mutate import Bug, bugs
from mimo.errors import RecipeError
from mimo.types import Split

LEVELS = (1, 2)


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One test: the call's arguments and the value the reference returns, as Python text."""

    arguments: str
    expected: str
    broken: bool
    """The bug gives another outcome here."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Draw:
    """Everything that makes one generated task."""

    task_id: str
    family: Family
    level: int
    spelling: Spelling
    bug: Bug
    layout: Layout
    visible: tuple[Case, ...]
    hidden: tuple[Case, ...]
    shown: bool
    """The file stands in the instruction; else the policy has to look."""


def task_id(seed: int, split: Split, index: int, pool: tuple[Family, ...], level: int | None) -> str:
    """The opaque id of one generated task."""
    names = ",".join(entry.name for entry in pool)
    return "g" + hashlib.sha256(f"{seed}/{split}/{index}/{level}/{names}".encode()).hexdigest()[:12]


def families_for(split: Split, names: Sequence[str] | None, level: int | None) -> tuple[Family, ...]:
    """The families a source draws from, in order.

    Raises:
        RecipeError: an unknown family or level, or none left for this split.
    """
    unknown = [name for name in names or () if name not in FAMILIES]
    if unknown:
        raise RecipeError(
            f"unknown function families {', '.join(unknown)}", hint=f"known: {', '.join(FAMILIES)}"
        )
    if level is not None and level not in LEVELS:
        raise RecipeError(f"level is {level}; the coding generator has {LEVELS}")
    chosen = [FAMILIES[name] for name in names] if names else list(FAMILIES.values())
    mine = tuple(
        entry for entry in chosen if entry.split == split and (level != 1 or names or entry.level == 1)
    )
    if not mine:
        raise RecipeError(
            f"no function family is left for the {split} split",
            hint="name some of that split or leave `families` out",
        )
    return mine


@lru_cache(maxsize=4096)
def _breaking(source: str, function: str, family: str) -> tuple[tuple[Bug, tuple[bool, ...]], ...]:
    """The bugs that show on at least two inputs, with the inputs they show on."""
    inputs = FAMILIES[family].inputs
    right = outcomes(source, function, inputs)
    found = []
    for bug in bugs(source):
        wrong = outcomes(bug.apply(source), function, inputs)
        differs = tuple(a != b for a, b in zip(right, wrong, strict=True))
        if sum(differs) >= 2:
            found.append((bug, differs))
    if not found:
        raise ValueError(f"family {family}: no mutation shows on two inputs")
    return tuple(found)


def draw(seed: int, split: Split, index: int, pool: tuple[Family, ...], level: int | None) -> Draw:
    """The task number `index` of a split; the same arguments give the same task, byte for byte."""
    rng = random.Random(f"mimo-coding/{seed}/{split}/{index}")
    entry = pool[index % len(pool)]
    chosen_level = level if level is not None else rng.choice(LEVELS)
    spelling = entry.spell(rng, chosen_level)
    options = _breaking(spelling.source, spelling.function, entry.name)
    kinds = sorted({bug.kind for bug, _ in options})
    kind = rng.choice(kinds)
    bug, differs = rng.choice([option for option in options if option[0].kind == kind])
    visible, hidden = _split_cases(rng, entry, spelling, differs)
    return Draw(
        task_id=task_id(seed, split, index, pool, level),
        family=entry,
        level=chosen_level,
        spelling=spelling,
        bug=bug,
        layout=pick_layout(rng, spelling, chosen_level),
        visible=visible,
        hidden=hidden,
        shown=chosen_level == 1 or rng.random() < 0.75,
    )


def _split_cases(
    rng: random.Random, entry: Family, spelling: Spelling, differs: tuple[bool, ...]
) -> tuple[tuple[Case, ...], tuple[Case, ...]]:
    """Two visible tests (one shows the bug); the others, at least one of which shows it, are hidden."""
    results = outcomes(spelling.source, spelling.function, entry.inputs)
    cases = [
        Case(arguments=", ".join(map(repr, values)), expected=result.removeprefix("= "), broken=broken)
        for values, result, broken in zip(entry.inputs, results, differs, strict=True)
    ]
    rng.shuffle(cases)
    showing = next(case for case in cases if case.broken)
    quiet = next((case for case in cases if not case.broken), None)
    visible = (showing, quiet) if quiet else (showing,)
    return visible, tuple(case for case in cases if case not in visible)
