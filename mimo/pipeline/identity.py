"""What a stage's result is, as data; its keys; and how two identities differ, root cause first."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mimo.pipeline.code import CodeFacts, CodeReader, code_digest
from mimo.pipeline.order import Placed
from mimo.recipe.models import Recipe
from mimo.run_dir.files import canonical
from mimo.types import SCHEMA, Json

_SOFT = ("code", "tools", "horizon")
"""Parts that do not decide which unfinished work may be continued."""
_LONGEST = 60
"""Characters of a value in a reason."""
_CAUSES = ("params", "horizon", "version", "images", "inputs", "code", "tools", "schema", "stage")


@dataclass(frozen=True, kw_only=True, slots=True)
class StageFacts:
    """A stage's part of the frozen plan: all of its identity but the digests of its inputs."""

    name: str
    target: str
    cost: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    built: bool
    missing: str | None
    params: dict[str, Json]
    horizon: dict[str, int]
    version: int
    images: dict[str, Json]
    code: CodeFacts

    def identity(self, inputs: Mapping[str, str]) -> dict[str, Json]:
        """Everything the result depends on, given the digests of the inputs by stage name."""
        return {
            "schema": SCHEMA,
            "stage": self.name,
            "version": self.version,
            "params": self.params,
            "horizon": dict(self.horizon),
            "inputs": dict(sorted(inputs.items())),
            "images": self.images,
            "code": dict(self.code.modules),
            "tools": dict(self.code.tools),
        }

    @property
    def code_digest(self) -> str:
        """One digest of code and tools."""
        return code_digest(self.code)


def stage_facts(placed: Placed, recipe: Recipe, reader: CodeReader) -> StageFacts:
    """The facts of one stage for this recipe and the code as it is now."""
    stage = placed.stage
    active = placed.missing is None and stage.built
    horizon = stage.horizon(recipe) if active else {}
    images = getattr(stage, "images", None)
    return StageFacts(
        name=placed.name,
        target=placed.target,
        cost=stage.cost,
        reads=tuple(stage.reads),
        writes=tuple(getattr(stage, "writes", ())),
        built=stage.built,
        missing=placed.missing,
        params=_without_horizon(stage.params(recipe), horizon, placed.name.replace("-", "_"))
        if active
        else {},
        horizon=dict(horizon),
        version=stage.version,
        images=dict(images(recipe)) if active and images else {},
        code=reader.facts(placed.target.partition(":")[0]) if active else CodeFacts(modules={}, tools={}),
    )


def key_of(identity: Mapping[str, Json]) -> str:
    """The key of a published result: 64 hex digits."""
    return hashlib.sha256(canonical(identity)).hexdigest()


def work_key_of(identity: Mapping[str, Json]) -> str:
    """The key of unfinished work: equal for identities that differ in code, tools or horizon only."""
    return key_of({name: value for name, value in identity.items() if name not in _SOFT})


def differences(old: Mapping[str, Json], new: Mapping[str, Json]) -> list[str]:
    """How `new` differs from `old`, a line each: params first, then inputs, then code and tools."""
    lines: list[str] = []
    for part in _CAUSES:
        lines.extend(_changed(part, old.get(part), new.get(part)))
    return lines


def same_but(old: Mapping[str, Json], new: Mapping[str, Json]) -> set[str]:
    """The names of the parts in which the two differ."""
    return {part for part in {*old, *new} if old.get(part) != new.get(part)}


def _changed(part: str, old: Json, new: Json) -> Iterator[str]:
    word = {"params": "param", "inputs": "input", "tools": "tool", "images": "image"}.get(part, part)
    before, after = dict(_flat(old)), dict(_flat(new))
    for name in sorted({*before, *after}):
        if before.get(name, ...) != after.get(name, ...):
            label = f"{word} {name}".strip()
            if part in ("inputs", "code"):
                yield f"{label} {_fate(name, before, after)}"
            else:
                yield f"{label}: {_short(before, name)} -> {_short(after, name)}"


def _short(values: Mapping[str, Json], name: str) -> str:
    """A value in a line: a list of mappings (task sources) would fill a page."""
    if name not in values:
        return "absent"
    value = values[name]
    text = str(value)
    if len(text) <= _LONGEST:
        return text
    return f"a list of {len(value)}" if isinstance(value, list) else f"{text[: _LONGEST - 1]}…"


def _fate(name: str, before: Mapping[str, Json], after: Mapping[str, Json]) -> str:
    if name not in before:
        return "is new"
    return "changed" if name in after else "is gone"


def _flat(data: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    if isinstance(data, dict) and data:
        for key, value in data.items():
            yield from _flat(value, f"{path}.{key}" if path else key)
    elif not (isinstance(data, dict) and not path):
        yield path, data


def _without_horizon(params: Mapping[str, Json], horizon: Mapping[str, int], section: str) -> dict[str, Json]:
    """The params less the horizon's keys: recipe paths, or names of the stage's own section."""
    kept = dict(params)
    for name in horizon:
        for path in (name.split("."), [section, name]):
            kept = _less(kept, path)
    return kept


def _less(data: Mapping[str, Json], path: list[str]) -> dict[str, Json]:
    """A copy of `data` without the value at `path`, if there is one."""
    first, *rest = path
    inner = data.get(first)
    if not rest:
        return {key: value for key, value in data.items() if key != first}
    return {**data, first: _less(inner, rest)} if isinstance(inner, dict) else dict(data)
