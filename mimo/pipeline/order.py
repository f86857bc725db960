"""The stages in their order, by name; classes are imported when used and load nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from mimo.errors import RecipeError
from mimo.recipe.models import Recipe
from mimo.registry import Registry
from mimo.stages.base import Stage

STAGES: dict[str, str] = {
    "prepare-env": "mimo.stages.prepare_env:PrepareEnv",
    "probe-hacks": "mimo.stages.probe_hacks:ProbeHacks",
    "cold-start": "mimo.stages.cold_start:ColdStart",
    "synthesize-rubrics": "mimo.stages.synthesize_rubrics:SynthesizeRubrics",
    "rl-mixed": "mimo.stages.rl_mixed:RlMixed",
    "mopd2": "mimo.stages.mopd2:Mopd2",
    "audit": "mimo.stages.audit:Audit",
}
"""Name -> `module:Class`; a stage may read only outputs of stages before it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Placed:
    """A stage at its place. `missing` says why it is left out of this recipe, or None."""

    name: str
    target: str
    stage: Stage
    missing: str | None


class Order:
    """An ordered table of stages; tests bring their own."""

    def __init__(self, entries: Mapping[str, str] = STAGES) -> None:
        self._entries = dict(entries)
        self._registry = Registry("stage", entries)

    def names(self) -> tuple[str, ...]:
        """All names, in order."""
        return tuple(self._entries)

    def load(self, name: str) -> Stage:
        """The stage called `name`; RecipeError when unknown."""
        found = self._registry.load(name)
        assert callable(found)
        return cast(Stage, found())

    def placed(self, recipe: Recipe) -> list[Placed]:
        """Every stage in order, with why it is left out of `recipe` where it is.

        Raises:
            RecipeError: a stage reads one that does not come before it.
        """
        placed: list[Placed] = []
        for name, target in self._entries.items():
            stage = self.load(name)
            unknown = set(stage.reads) - {before.name for before in placed}
            if unknown:
                raise RecipeError(f"stage {name} reads {sorted(unknown)}, which does not come before it")
            placed.append(Placed(name=name, target=target, stage=stage, missing=_missing(recipe, stage)))
        return placed


def _missing(recipe: Recipe, stage: Stage) -> str | None:
    if stage.name not in recipe.stages:
        return "left out by `stages:`"
    key = stage.name.replace("-", "_")
    if getattr(recipe, key, ...) is None:
        return f"{key}: null"
    return None
