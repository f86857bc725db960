"""What a function family is: a reference template, its spellings, and the inputs that test it."""

from __future__ import annotations

import ast
import random
from collections.abc import Mapping
from dataclasses import dataclass
from string import Template

from mimo.types import Json, Split


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """One kind of function. Held-out families are never trained on and never demonstrated.

    `template` is the reference with `$` placeholders; `words` gives each placeholder its spellings (`f` is
    the function); `inputs` are argument lists, enough of them to tell every bug from the reference.
    """

    name: str
    split: Split
    level: int
    template: str
    words: Mapping[str, tuple[str, ...]]
    modules: tuple[str, ...]
    inputs: tuple[tuple[Json, ...], ...]

    def spell(self, rng: random.Random, level: int) -> Spelling:
        """One spelling: at level 1 every placeholder takes the same column, else each its own."""
        column = rng.randrange(min(len(options) for options in self.words.values()))
        chosen = {
            key: options[column] if level == 1 else rng.choice(options) for key, options in self.words.items()
        }
        module = self.modules[column % len(self.modules)] if level == 1 else rng.choice(self.modules)
        return Spelling(
            function=chosen["f"], module=module, source=Template(self.template).substitute(chosen)
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Spelling:
    """A family's reference with names put in."""

    function: str
    module: str
    source: str


def family(
    name: str, template: str, *words: str, modules: str, inputs: str, level: int = 2, split: Split = "train"
) -> Family:
    """A family from compact text: words as `"x: value number n"`, inputs as argument lists between ` | `."""
    spelled = {key.strip(): tuple(rest.split()) for key, _, rest in (line.partition(":") for line in words)}
    short = [key for key, options in spelled.items() if len(set(options)) < 3]
    if short or "f" not in spelled:
        raise ValueError(f"family {name}: fewer than three spellings of {short or 'f'}")
    return Family(
        name=name,
        split=split,
        level=level,
        template=template.lstrip("\n"),
        words=spelled,
        modules=tuple(modules.split()),
        inputs=tuple(ast.literal_eval(f"({text.strip()},)") for text in inputs.split(" | ")),
    )
