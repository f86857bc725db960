"""Syntax trees of text that a policy wrote: parsed under limits, never compiled, never run."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

MAX_CHARS = 200_000
"""As many as `ground.MAX_FILE_BYTES`: what is read is parsed."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """A construct in a file: `key` says what counts as the same construct elsewhere, `line` where it is."""

    check: str
    key: str
    line: int


Look = Callable[[ast.Module], Iterable[Sighting]]
"""Finds the constructs of one kind in a file."""


@lru_cache(maxsize=8)
def parsed(source: str) -> ast.Module | None:
    """The tree (shared: read it only), or None for text that is too long, too deep or no Python."""
    if len(source) > MAX_CHARS:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def shown(node: ast.AST) -> str:
    """A node as a key: its dump, at most 400 characters; empty where it is too deep to dump."""
    try:
        return ast.dump(node)[:400]
    except (RecursionError, MemoryError):
        return ""


def dotted(node: ast.AST | None) -> str:
    """`a.b.c` of a name or an attribute of names, else an empty text."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([node.id, *reversed(parts)])


def functions(tree: ast.Module) -> list[tuple[str, int, int]]:
    """Qualified name, first and last line of every function, outer ones first."""
    found: list[tuple[str, int, int]] = []
    todo: list[tuple[ast.AST, str]] = [(tree, "")]
    while todo:
        node, prefix = todo.pop()
        for child in ast.iter_child_nodes(node):
            name = prefix
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                name = f"{prefix}.{child.name}" if prefix else child.name
                if not isinstance(child, ast.ClassDef):
                    found.append((name, child.lineno, child.end_lineno or child.lineno))
            todo.append((child, name))
    return sorted(found, key=lambda item: (item[1], -item[2]))
