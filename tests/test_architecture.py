"""The shape of the code: sizes, parameters, and that the packages imported are the checkout's."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import commands
import mimo
import sandbox

ROOT = Path(mimo.__file__).parents[1]
MAX_LINES = 300
MAX_ALGO_LINES = 120
MAX_FUNCTION_LINES = 60
MAX_POSITIONAL = 7
RECORDS = {"mimo/types.py"}
"""Nothing but records, one after another."""


def _files() -> Iterator[Path]:
    for package in ("mimo", "commands", "sandbox"):
        yield from sorted((ROOT / package).rglob("*.py"))


def _functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for path in _files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", node


def test_one_checkout_is_imported() -> None:
    parents = {Path(str(package.__file__)).parents[1] for package in (commands, mimo, sandbox)}
    assert len(parents) == 1, f"another distribution shadows commands, mimo or sandbox: {parents}"


def test_files_are_short() -> None:
    long = {}
    for path in _files():
        name = path.relative_to(ROOT).as_posix()
        limit = MAX_ALGO_LINES if name.startswith("mimo/algo/") else MAX_LINES
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > limit and name not in RECORDS:
            long[name] = lines
    assert long == {}


def test_functions_are_short() -> None:
    long = {
        name: length
        for name, node in _functions()
        if (length := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION_LINES
    }
    assert long == {}


def test_few_positional_parameters() -> None:
    many = {
        name: count
        for name, node in _functions()
        if (count := len([a for a in node.args.args if a.arg not in ("self", "cls")])) > MAX_POSITIONAL
    }
    assert many == {}
