"""The recipe's keys as the models declare them: which stand where, their documentation, the JSON schema."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from mimo.recipe.models import Recipe
from mimo.types import Json


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the recipe: dotted, `[]` after a list; what it means; its type in words."""

    dotted: str
    meaning: str
    kind: str
    leaf: bool


def models_in(annotation: object) -> list[type[BaseModel]]:
    """Every model that a field's type can hold, through unions, lists and annotations."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in typing.get_args(annotation) for model in models_in(part)]


def _is_list(annotation: object) -> bool:
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated or origin is typing.Union or origin is types.UnionType:
        return any(_is_list(part) for part in typing.get_args(annotation))
    return origin is tuple


def fields_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The fields of a model under the names that YAML uses."""
    return {info.alias or name: info for name, info in model.model_fields.items()}


def keys_at(path: Sequence[str | int]) -> tuple[str, ...]:
    """The keys that may stand in the mapping at a path of keys and list positions."""
    models: list[type[BaseModel]] = [Recipe]
    for part in path:
        if isinstance(part, int):
            continue
        found = [fields_of(model)[part].annotation for model in models if part in fields_of(model)]
        models = [below for annotation in found for below in models_in(annotation)]
    return tuple(dict.fromkeys(key for model in models for key in fields_of(model)))


@cache
def all_keys() -> tuple[Key, ...]:
    """Every key of the recipe, in the order of the models, parents before their children."""
    return tuple(_keys(Recipe, ""))


def _keys(model: type[BaseModel], prefix: str) -> Iterator[Key]:
    for name, info in fields_of(model).items():
        below = models_in(info.annotation)
        dotted = f"{prefix}{name}"
        meaning = " ".join((info.description or "").split())
        yield Key(dotted, meaning, _kind(info), leaf=not below)
        mark = "[]." if _is_list(info.annotation) else "."
        for each in below:
            label = f"<{_tag(each)}>." if len(below) > 1 else ""
            yield from _keys(each, f"{dotted}{mark.rstrip('.') if label else mark}{label}")


def _tag(model: type[BaseModel]) -> str:
    kind = fields_of(model)["kind"].annotation
    return str(typing.get_args(kind)[0])


def _kind(info: FieldInfo) -> str:
    return _words(info.annotation)


def _words(annotation: object) -> str:
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return " | ".join(str(part) for part in parts)
    if origin is typing.Annotated:
        return _words(parts[0])
    if origin is tuple:
        return f"list of {_words(parts[0])}"
    if origin is dict or (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        return "mapping"
    if origin is typing.Union or origin is types.UnionType:
        return " | ".join(dict.fromkeys(_words(part) for part in parts))
    names = {"int": "whole number", "float": "number", "str": "text", "bool": "true | false"}
    name = getattr(annotation, "__name__", str(annotation))
    return "null" if annotation is type(None) else names.get(name, name)


def json_schema() -> dict[str, Json]:
    """JSON schema of a recipe file for editors: every key may come from `extends`, so none is required."""
    schema: dict[str, Json] = Recipe.model_json_schema(by_alias=True)
    _relax(schema)
    properties = schema["properties"]
    assert isinstance(properties, dict)
    text: dict[str, Json] = {"type": "string"}
    overlay: dict[str, Json] = {
        "type": "object",
        "properties": dict(properties),
        "additionalProperties": False,
    }
    properties["extends"] = {"anyOf": [text, {"type": "array", "items": text}]}
    properties["profiles"] = {
        "type": "object",
        "additionalProperties": {"anyOf": [overlay, {"type": "null"}]},
    }
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return schema


def _relax(node: Json) -> None:
    if isinstance(node, dict):
        properties = node.get("properties")
        if isinstance(properties, dict) and "kind" not in properties:
            node.pop("required", None)
        for below in node.values():
            _relax(below)
    elif isinstance(node, list):
        for item in node:
            _relax(item)
