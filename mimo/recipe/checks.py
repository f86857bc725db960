"""A tree of values as a Recipe, or everything that is wrong with it, each at its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from mimo.recipe.environment import malformed
from mimo.recipe.models import Recipe
from mimo.recipe.problems import Problem, did_you_mean, holds_password
from mimo.recipe.schema import all_keys, keys_at
from mimo.recipe.yaml_tree import Value

_SHOWN = 60


def check(tree: Value) -> tuple[Recipe | None, list[Problem]]:
    """The recipe in `tree` (None if it has problems) and every problem."""
    problems = _text_problems(tree)
    try:
        recipe = Recipe.model_validate(tree.plain())
    except ValidationError as error:
        found = error.errors(include_url=False)
        return None, problems + [_problem(tree, detail) for detail in found if not _consequence(detail)]
    return (None if problems else recipe), problems


def _consequence(detail: ErrorDetails) -> bool:
    """Whether pydantic calls a list too short only because items in it are wrong."""
    return detail["type"] == "too_short" and bool(detail["input"])


def _text_problems(tree: Value) -> list[Problem]:
    problems = []
    for key, value in tree.walk():
        if not isinstance(value.content, str):
            continue
        if holds_password(value.content):
            problems.append(Problem(value.origin, key, "a password in plain text; write ${env:NAME} for it"))
        if (reference := malformed(value.content)) is not None:
            what = f"{reference!r} is no reference; only ${{env:NAME}} and ${{env:NAME:-default}} are"
            problems.append(Problem(value.origin, key, what))
    return problems


def _problem(tree: Value, detail: ErrorDetails) -> Problem:
    path, value = _place(tree, detail["loc"])
    what = _what(detail, path)
    return Problem(value.origin, ".".join(map(str, path)), what)


def _place(tree: Value, loc: Sequence[str | int]) -> tuple[list[str | int], Value]:
    """The path of a pydantic location without the tags of unions, and the nearest value that exists."""
    path: list[str | int] = []
    value = tree
    for at, part in enumerate(loc):
        entries, items = value.entries(), value.items()
        if entries is not None and part in entries:
            value = entries[str(part)]
        elif items is not None and isinstance(part, int) and part < len(items):
            value = items[part]
        elif at < len(loc) - 1:
            continue  # the tag of a union
        path.append(part)
    return path, value


def _what(detail: ErrorDetails, path: Sequence[str | int]) -> str:
    kind, given = detail["type"], detail.get("input")
    context: Mapping[str, object] = detail.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown(path)
    if kind == "missing":
        return "required and nowhere set (`extends: base` sets every key of the method)"
    if kind == "value_error":
        return str(context.get("error", detail["msg"]))
    if kind.startswith("union_tag"):
        tag, known = (
            context.get("tag"),
            str(context.get("expected_tags", "'generated', 'pypi-pair', 'folder'")),
        )
        names = [name.strip(" '") for name in known.split(",")]
        return f"kind should be one of {known}, got {tag!r}{did_you_mean(str(tag), names)}"
    if kind == "too_short":
        return "should have at least one item"
    if given is None:
        return f"must be set: {_lower(detail['msg'])}, got null"
    if isinstance(given, str) and "${" in given and kind != "string_pattern_mismatch":
        return f"a reference can stand only where text can: {_lower(detail['msg'])}"
    if kind == "literal_error":
        allowed = [name.strip(" '") for name in str(context["expected"]).replace(" or ", ", ").split(",")]
        return f"{_lower(detail['msg'])}, got {_show(given)}{did_you_mean(str(given), allowed)}"
    return f"{_lower(detail['msg'])}, got {_show(given)}"


def _lower(message: str) -> str:
    return message.removeprefix("Input ").rstrip(".")


def _show(given: object) -> str:
    if isinstance(given, Mapping):
        return "a mapping"
    if isinstance(given, (list, tuple)):
        return f"a list of {len(given)}"
    text = repr(given)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _unknown(path: Sequence[str | int]) -> str:
    word, siblings = str(path[-1]), keys_at(path[:-1])
    near = did_you_mean(word, siblings)
    if not near:
        elsewhere = [key.dotted for key in all_keys() if key.dotted.rpartition(".")[2] == word]
        near = f" (did you mean {elsewhere[0]!r}?)" if elsewhere else ""
    return f"unknown key{near}"
