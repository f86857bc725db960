"""`${env:NAME}` and `${env:NAME:-default}`: kept as they are in every file, resolved when used."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import TypeVar

from mimo.errors import RecipeError
from mimo.recipe.model_base import Section
from mimo.types import Json

_REFERENCE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_ANY = re.compile(r"\$\{[^}]*\}?")
_S = TypeVar("_S", bound=Section)


def references(text: str) -> tuple[str, ...]:
    """Names of the variables that `text` refers to."""
    return tuple(match.group(1) for match in _REFERENCE.finditer(text))


def malformed(text: str) -> str | None:
    """The first `${…}` in `text` that is no environment reference, or None."""
    return next((found for found in _ANY.findall(text) if not _REFERENCE.fullmatch(found)), None)


def resolve_env(text: str, environ: Mapping[str, str] | None = None) -> str:
    """`text` with every reference replaced by its value. Never store or log the result.

    Raises:
        RecipeError: a variable is unset and its reference has no default.
    """
    values = os.environ if environ is None else environ

    def value_of(match: re.Match[str]) -> str:
        name, default = match.groups()
        value = values.get(name) or default
        if value is None:
            raise RecipeError(
                f"the environment variable {name} is unset or empty, and the recipe refers to it",
                hint=f"export {name}=…, or give a default: ${{env:{name}:-default}}",
            )
        return value

    return _REFERENCE.sub(value_of, text)


def with_environment(section: _S, environ: Mapping[str, str] | None = None) -> _S:
    """The same part of a recipe with every reference resolved; for the code that connects, not for files."""
    return type(section).model_validate(_resolved(section.model_dump(by_alias=True), environ))


def _resolved(data: object, environ: Mapping[str, str] | None) -> object:
    if isinstance(data, str):
        return resolve_env(data, environ)
    if isinstance(data, dict):
        return {key: _resolved(value, environ) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_resolved(item, environ) for item in data]
    return data


def texts(data: Json) -> Iterator[str]:
    """Every text value in `data`."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        for value in data.values():
            yield from texts(value)
    elif isinstance(data, list):
        for item in data:
            yield from texts(item)


def redact(text: str, data: Json, environ: Mapping[str, str] | None = None) -> str:
    """`text` with the value of every variable that `data` refers to shown as its reference."""
    values = os.environ if environ is None else environ
    names = {name for value in texts(data) for name in references(value)}
    for name in sorted(names, key=lambda n: -len(values.get(n, ""))):
        if len(values.get(name, "")) >= 4:  # a shorter one would garble the text and hide nothing
            text = text.replace(values[name], f"${{env:{name}}}")
    return text
