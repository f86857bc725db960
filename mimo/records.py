"""Records as JSON lines: one record a line, with `"schema": 1`; upgrades are pure functions of the data."""

from __future__ import annotations

import json
from collections.abc import Hashable
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from mimo.types import SCHEMA, Json

_Record = TypeVar("_Record")


@cache
def _adapter(kind: Hashable) -> TypeAdapter[Any]:
    return TypeAdapter(cast(Any, kind))


def to_json(item: object) -> dict[str, Json]:
    """The record as JSON data with `schema` first; enums become their words, tuples lists."""
    data = cast("dict[str, Json]", _adapter(cast(Hashable, type(item))).dump_python(item, mode="json"))
    return {"schema": SCHEMA, **data}


def from_json(kind: type[_Record], data: dict[str, Json]) -> _Record:
    """The record of class `kind` in `data`.

    Raises:
        ValueError: another schema, an unknown or missing field, a wrong type; the message names the record
            and, for every problem, the field, what was expected and what was got.
    """
    schema = data.get("schema")
    if schema != SCHEMA:
        raise ValueError(f"{kind.__name__}: schema is {schema!r}; this mimo reads {SCHEMA}")
    body = {key: value for key, value in data.items() if key != "schema"}
    try:
        return cast(_Record, _adapter(cast(Hashable, kind)).validate_json(json.dumps(body)))
    except ValidationError as error:
        raise ValueError(f"{kind.__name__}: {_problems(error)}") from error


def to_line(item: object) -> bytes:
    """The record as one line of JSON, newline included."""
    return json.dumps(to_json(item), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def from_line(kind: type[_Record], line: bytes | str) -> _Record:
    """The record on one line; errors as `from_json`, also for a line that is no JSON object."""
    try:
        data = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{kind.__name__}: not JSON: {error}") from error
    if not isinstance(data, dict):
        raise ValueError(f"{kind.__name__}: got {type(data).__name__}, expected an object")
    return from_json(kind, data)


def _problems(error: ValidationError) -> str:
    rows = error.errors(include_url=False)
    return "; ".join(
        f"{'.'.join(map(str, row['loc']))}: {row['msg']} (got {row['input']!r:.80})" for row in rows
    )
