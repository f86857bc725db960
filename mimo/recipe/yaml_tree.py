"""YAML text as a tree of values that know where they were written; YAML 1.2 scalars, no duplicate keys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from mimo.recipe.problems import Origin, Problem, did_you_mean
from mimo.types import Json

MAX_VALUES = 100_000
"""A file with more values than this (an alias bomb) is refused."""

Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Value:
    """A scalar, a sequence or a mapping, and where its key (or the item itself) was written."""

    origin: Origin
    content: Scalar | Sequence[Value] | Mapping[str, Value]

    def entries(self) -> Mapping[str, Value] | None:
        """The keys of a mapping; None for everything else."""
        return self.content if isinstance(self.content, Mapping) else None

    def items(self) -> Sequence[Value] | None:
        """The items of a sequence; None for everything else."""
        content = self.content
        return content if isinstance(content, Sequence) and not isinstance(content, str) else None

    def plain(self) -> Json:
        """The same as plain Python data."""
        content = self.content
        if isinstance(content, Mapping):
            return {key: value.plain() for key, value in content.items()}
        if isinstance(content, Sequence) and not isinstance(content, str):
            return [item.plain() for item in content]
        return content

    def walk(self, key: str = "") -> Iterator[tuple[str, Value]]:
        """Every value below this one with its dotted key, parents first."""
        entries, items = self.entries(), self.items()
        below = list(entries.items()) if entries is not None else list(enumerate(items or ()))
        for name, value in below:
            dotted = f"{key}.{name}" if key else str(name)
            yield dotted, value
            yield from value.walk(dotted)


class RecipeLoader(yaml.SafeLoader):
    """PyYAML's safe loader with YAML 1.2's scalars: `1e-6` is a float, `no` is text."""


class RecipeDumper(yaml.SafeDumper):
    """Writes what RecipeLoader reads back as the same value; never writes aliases."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - an alias would hide a value
        return True


_CORE = (
    ("null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]),
    ("bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")),
    ("int", re.compile(r"^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$"), list("-+0123456789")),
    (
        "float",
        re.compile(
            r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
            r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
        ),
        list("-+0123456789."),
    ),
)
_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
for _kind, _pattern, _first in _CORE:
    for _letter in _first:
        _resolvers.setdefault(_letter, []).append((f"tag:yaml.org,2002:{_kind}", _pattern))
setattr(RecipeLoader, "yaml_implicit_resolvers", _resolvers)  # noqa: B010 - untyped class attribute
setattr(RecipeDumper, "yaml_implicit_resolvers", _resolvers)  # noqa: B010


def dump_yaml(data: Json) -> str:
    """`data` as YAML that `parse_yaml` reads back unchanged."""
    written = _dump(data, allow_unicode=True)
    # PyYAML writes these line breaks raw into keys and reads them back as spaces; escaped, they survive.
    return _dump(data, allow_unicode=False) if set(written) & set("\x85\u2028\u2029") else written


def _dump(data: Json, *, allow_unicode: bool) -> str:
    return str(yaml.dump(data, Dumper=RecipeDumper, sort_keys=False, allow_unicode=allow_unicode, width=110))


def _scalar(tag: str, text: str) -> Scalar:
    kind = tag.rpartition(":")[2]
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() == "true"
    if kind == "int":
        sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
        base = {"0o": 8, "0x": 16}.get(digits[:2], 10)
        return sign * int(digits[2:] if base != 10 else digits, base)
    if kind == "float":
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return text


@dataclass
class _Reader:
    """Turns PyYAML nodes into values and collects what is wrong on the way."""

    file: str
    fixed: Origin | None
    problems: list[Problem] = field(default_factory=list)
    open_nodes: list[int] = field(default_factory=list)
    seen: int = 0

    def origin(self, node: yaml.Node) -> Origin:
        mark = node.start_mark
        return self.fixed or Origin(self.file, mark.line + 1, mark.column + 1)

    def problem(self, node: yaml.Node, key: str, what: str) -> None:
        self.problems.append(Problem(self.origin(node), key, what))

    def value(self, node: yaml.Node, key: str, origin: Origin) -> Value:
        self.seen += 1
        if self.seen > MAX_VALUES:
            raise OverflowError
        if id(node) in self.open_nodes:
            self.problems.append(Problem(origin, key, "an alias that contains itself"))
            return Value(origin, None)
        self.open_nodes.append(id(node))
        try:
            return Value(origin, self._content(node, key, origin))
        finally:
            self.open_nodes.pop()

    def _content(self, node: yaml.Node, key: str, origin: Origin) -> Scalar | list[Value] | dict[str, Value]:
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, key)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, f"{key}.{n}", self.origin(item)) for n, item in enumerate(node.value)]
        if node.tag.rpartition(":")[2] not in ("null", "bool", "int", "float", "str"):
            self.problem(node, key, f"tag {node.tag!r} is not read; write plain YAML")
            return None
        try:
            return _scalar(node.tag, str(node.value))
        except ValueError:
            self.problems.append(Problem(origin, key, f"{node.value!r} is no {node.tag.rpartition(':')[2]}"))
            return None

    def _mapping(self, node: yaml.MappingNode, key: str) -> dict[str, Value]:
        entries: dict[str, Value] = {}
        for name_node, value_node in node.value:
            if not isinstance(name_node, yaml.ScalarNode):
                self.problem(name_node, key, "a key must be plain text")
                continue
            name = str(name_node.value)
            dotted = f"{key}.{name}" if key else name
            if name == "<<":
                self.problem(name_node, dotted, "merge keys are not read; use extends")
            elif name in entries:
                first = entries[name].origin.line
                self.problem(name_node, dotted, f"duplicate key (first on line {first})")
            else:
                entries[name] = self.value(value_node, dotted, self.origin(name_node))
        return entries


def parse_yaml(text: str, file: str, *, fixed: Origin | None = None) -> tuple[Value, list[Problem]]:
    """The values in `text` and everything wrong with how it is written; `fixed` overrides all positions.

    An empty text is an empty value (None). Syntax errors end the reading: then one problem says where.
    """
    reader = _Reader(file, fixed)
    top = fixed or Origin(file, 1, 1)
    try:
        node: Any = yaml.compose(text, Loader=RecipeLoader)
        return (Value(top, None) if node is None else reader.value(node, "", top)), reader.problems
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = fixed or (Origin(file, mark.line + 1, mark.column + 1) if mark else top)
        what = error.problem or error.context or "cannot be read"
        return Value(top, None), [*reader.problems, Problem(where, "", f"YAML: {what}")]
    except yaml.YAMLError as error:
        return Value(top, None), [Problem(top, "", f"YAML: {' '.join(str(error).split())}")]
    except (OverflowError, RecursionError):
        return Value(top, None), [Problem(top, "", f"too deep, or more than {MAX_VALUES} values")]


def merge(under: Value | None, over: Value) -> Value:
    """`over` laid on `under`: mappings merge key by key, everything else (null too) replaces."""
    below, above = under.entries() if under else None, over.entries()
    if below is None or above is None:
        return over
    merged = dict(below)
    for key, value in above.items():
        merged[key] = merge(merged.get(key), value)
    return Value(over.origin, merged)


def put(root: Value, keys: Sequence[str], value: Value) -> Value:
    """`root` with `value` at a path; a number goes into a list, a null on the way becomes a mapping.

    Raises:
        LookupError: the path leads into a scalar or outside a list; its text says so.
    """
    if not keys:
        return value
    head, rest = keys[0], keys[1:]
    items, entries = root.items(), root.entries()
    if items is not None:
        if not head.isdecimal() or int(head) >= len(items):
            raise LookupError(f"{head!r} is no position in a list of {len(items)}")
        index = int(head)
        return Value(
            root.origin, [put(item, rest, value) if n == index else item for n, item in enumerate(items)]
        )
    if entries is None and root.content is not None:
        raise LookupError(f"{root.content!r} holds no keys")
    below = dict(entries or {})
    below[head] = put(below.get(head, Value(value.origin, None)), rest, value)
    return Value(root.origin, below)


def unknown_name(word: str, known: Sequence[str]) -> str:
    """`'x' is unknown; known: a, b (did you mean 'a'?)`."""
    return f"{word!r} is unknown; known: {', '.join(known) or 'none'}{did_you_mean(word, known)}"
