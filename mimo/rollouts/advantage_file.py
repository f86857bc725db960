"""The JSON that `mimo advantages` reads: typed models, defaults, and every problem with its JSON path."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any, Literal, cast

from pydantic import AllowInfNan, BaseModel, ConfigDict, Field, ValidationError

from mimo.errors import RecipeError

Unit = Annotated[float, Field(ge=0, le=1)]
Reward = Annotated[float, Field(ge=-1e9, le=1e9)]
Factor = Annotated[float, AllowInfNan(True)]

PER_ROLLOUT = ("reward", "solution", "behavior", "quality", "leak", "invalid", "length", "flags")


class _Input(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class LengthPenaltyInput(_Input):
    """Constants of the length penalty; a partial object takes the published fork's reference values."""

    max: Annotated[float, Field(ge=0, le=1e9)] = 0.2
    deadzone: Annotated[float, Field(ge=0)] = 0.0
    saturation: Annotated[float, Field(gt=0)] = 1.0
    exponent: Annotated[float, Field(ge=1)] = 1.5
    percentile: Annotated[float, Field(ge=0, le=100)] = 30.0
    gate: Unit = 0.5


class TokenPenaltyInput(_Input):
    """Constants of the token penalty; a partial object takes the published fork's values."""

    kappa: Annotated[float, Field(ge=1, le=1e9)] = 2.0
    alpha_max: Annotated[float, Field(ge=1)] = 2.0
    beta_min: Annotated[float, Field(gt=0, le=1)] = 0.5
    skip_if_no_absorber: bool = False


class GroupInput(_Input):
    """One group; every list has one entry per rollout. A `null` score or factor is an answer not given."""

    passed: list[bool]
    reward: list[Reward] | None = None
    solution: list[Unit | None] | None = None
    behavior: list[Unit | None] | None = None
    quality: list[Factor | None] | None = None
    leak: list[bool] | None = None
    invalid: list[bool] | None = None
    length: list[Annotated[int, Field(ge=0, le=2**53)]] | None = None
    flags: list[list[Literal[0, 1]]] | None = None
    method: Literal["plain", "grs", "gar"] = "plain"
    cap: Annotated[float, Field(gt=0)] | None = 1.5
    below_mean: Literal["zero", "keep"] = "zero"
    recentre: bool = True
    floor: Unit = 0.0
    length_penalty: LengthPenaltyInput | None = None


class BatchInput(_Input):
    """The groups of one training batch; `token_penalty` null leaves flagged tokens like the others."""

    groups: list[GroupInput]
    token_penalty: TokenPenaltyInput | None = None
    aggregation: Literal["prompt-mean", "token-mean", "sequence-mean"] = "prompt-mean"


def read_input(text: str | bytes) -> BatchInput | GroupInput:
    """The group or batch in `text`.

    Raises:
        RecipeError: not JSON, or not of this form; one line per problem, each with its JSON path.
    """
    data = _parsed(text)
    batch = "groups" in data
    problems = []
    result: BatchInput | GroupInput | None = None
    try:
        result = (BatchInput if batch else GroupInput).model_validate(data)
    except ValidationError as error:
        problems = [_line(cast("dict[str, Any]", row)) for row in error.errors(include_url=False)]
    groups = data["groups"] if batch else [data]
    for number, group in enumerate(groups if isinstance(groups, list) else []):
        if isinstance(group, dict):
            problems += _contradictions(group, f"$.groups[{number}]" if batch else "$")
    if problems or result is None:
        raise RecipeError("\n".join(problems), hint="docs/advantages.md describes the file")
    return result


def _parsed(text: str | bytes) -> dict[str, Any]:
    try:
        data = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise RecipeError(f"$: not JSON: {error}") from error
    if not isinstance(data, dict):
        raise RecipeError(f"$: got {type(data).__name__}, expected a group or an object with groups")
    return data


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"key {twice!r} appears twice in one object")
    return dict(pairs)


def _line(row: dict[str, Any]) -> str:
    path = "$" + "".join(map(_step, row["loc"]))
    if row["type"] == "extra_forbidden":
        return f"{path}: unknown key"
    if row["type"] == "missing":
        return f"{path}: missing"
    if row["type"] == "model_type":
        return f"{path}: got {row['input']!r:.60}, expected an object"
    return f"{path}: {row['msg'][0].lower()}{row['msg'][1:]} (got {row['input']!r:.60})"


def _step(at: int | str) -> str:
    if isinstance(at, str) and at.isidentifier():
        return f".{at}"
    return f"[{json.dumps(at)}]"


def _contradictions(group: dict[str, Any], path: str) -> Iterator[str]:
    """Problems between keys, read from the raw data so that they are listed beside those of single keys."""
    passed = group.get("passed")
    size = len(passed) if isinstance(passed, list) else None
    for name in PER_ROLLOUT:
        values = group.get(name)
        if size is not None and isinstance(values, list) and len(values) != size:
            yield f"{path}.{name}: got {len(values)} entries, expected {size} as in passed"
    if group.get("method") == "grs" and group.get("reward") is None:
        for name in ("solution", "behavior"):
            if group.get(name) is None:
                yield f"{path}.{name}: missing; method grs needs it"
    penalty = group.get("length_penalty")
    if not isinstance(penalty, dict):
        return
    if group.get("length") is None:
        yield f"{path}.length: missing; length_penalty needs it"
    dead, full = penalty.get("deadzone", 0.0), penalty.get("saturation", 1.0)
    numbers = all(isinstance(at, int | float) and not isinstance(at, bool) for at in (dead, full))
    if numbers and full <= dead:
        yield f"{path}.length_penalty.saturation: got {full}, expected more than deadzone ({dead})"
