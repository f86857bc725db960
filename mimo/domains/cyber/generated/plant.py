"""What a bug family is: code with the bug and the commands that show it; names and numbers are drawn."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from string import Template
from typing import Literal

from mimo.types import Split

Language = Literal["c", "c++"]
GUARD = "    @guard\n"
"""A line of a template that becomes the gate's check from level 2 on, and nothing at level 1."""


class Words:
    """Names and numbers drawn for one program; no name comes twice."""

    def __init__(self, rng: random.Random, level: int) -> None:
        self.rng = rng
        self.level = level
        self._used: set[str] = set()

    def name(self, options: str) -> str:
        """One of the words in `options` that is not used yet; a number is added when all are."""
        words = options.split()
        free = [word for word in words if word not in self._used] or [
            word for word in (f"{word}{n}" for n in range(2, 9) for word in words) if word not in self._used
        ]
        word = self.rng.choice(free)
        self._used.add(word)
        return word

    def number(self, low: int, high: int) -> int:
        """A whole number in [low, high]."""
        return self.rng.randint(low, high)

    def pick(self, *options: str) -> str:
        """One of a few ways to write the same thing."""
        return self.rng.choice(options)

    def letters(self, count: int) -> str:
        """`count` letters: one repeated at level 1, else mixed."""
        if self.level == 1:
            return self.rng.choice("abcdxyz") * count
        return "".join(self.rng.choice("abcdefghijkmnopqrstuvwxyz") for _ in range(count))


@dataclass(frozen=True, kw_only=True, slots=True)
class Verb:
    """A command of the program: its word, and the function `void FUNCTION(const char *text)` behind it."""

    word: str
    function: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One command of an input."""

    word: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Plant:
    """A bug in code: `trigger` shows it, `benign` uses the same commands and shows nothing.

    `function` is the topmost function of the project in the report, without its parameters.
    """

    code: str
    verbs: tuple[Verb, ...]
    trigger: tuple[Step, ...]
    benign: tuple[Step, ...]
    function: str
    prose: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """One kind of bug. Held-out families are never trained on and never demonstrated.

    `reports` is the vulnerability type as `mimo.domains.cyber.report` names it.
    """

    name: str
    reports: str
    split: Split
    language: Language
    plant: Callable[[Words], Plant]


def family(
    name: str, reports: str, *, split: Split = "train", language: Language = "c"
) -> Callable[[Callable[[Words], Plant]], Family]:
    """A function of `Words` as a family."""

    def made(plant: Callable[[Words], Plant]) -> Family:
        return Family(name=name, reports=reports, split=split, language=language, plant=plant)

    return made


def one_verb(
    words: Words,
    template: str,
    *,
    verbs: str,
    function: str,
    trigger: str,
    benign: str,
    prose: str,
    **names: str | int,
) -> Plant:
    """The plant of a family with one command; the template's `$f` is the function behind it.

    Args:
        verbs: words to choose the command's name from.
        function: the function that the report names: a placeholder (`f` unless a helper is on top) or a name.
    """
    verb = Verb(word=words.name(verbs), function=str(names["f"]))
    return Plant(
        code=Template(template.lstrip("\n")).substitute(names),
        verbs=(verb,),
        trigger=(Step(word=verb.word, text=trigger),),
        benign=(Step(word=verb.word, text=benign),),
        function=str(names.get(function, function)),
        prose=prose,
    )
