"""Bugs by syntax-tree mutation: each changes one line of a function and keeps everything else as it was."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARE: dict[type[ast.cmpop], tuple[str, tuple[str, ...]]] = {
    ast.Lt: ("<", ("<=", ">")),
    ast.LtE: ("<=", ("<", ">=")),
    ast.Gt: (">", (">=", "<")),
    ast.GtE: (">=", (">", "<=")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: ("not in", ("in",)),
    ast.Is: ("is", ("is not",)),
}
_BINARY: dict[type[ast.operator], tuple[str, tuple[str, ...]]] = {
    ast.Add: ("+", ("-",)),
    ast.Sub: ("-", ("+",)),
    ast.Mult: ("*", ("+",)),
    ast.FloorDiv: ("//", ("%",)),
    ast.Mod: ("%", ("//",)),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Bug:
    """One wrong line: `line` counts from 1 in the function's source, `broken` replaces `correct`."""

    kind: str
    line: int
    correct: str
    broken: str

    def apply(self, source: str) -> str:
        """The source with the wrong line in place of the right one."""
        lines = source.split("\n")
        lines[self.line - 1] = self.broken
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class _Edit:
    kind: str
    line: int
    start: int
    end: int
    text: str


def bugs(source: str) -> tuple[Bug, ...]:
    """Every single-line mutation of the function in `source` that still compiles, without repeats."""
    tree = ast.parse(source)
    function = next(node for node in tree.body if isinstance(node, ast.FunctionDef))
    lines = source.split("\n")
    found: dict[tuple[int, str], Bug] = {}
    for edit in _edits(function, lines):
        correct = lines[edit.line - 1]
        broken = correct[: edit.start] + edit.text + correct[edit.end :]
        bug = Bug(kind=edit.kind, line=edit.line, correct=correct, broken=broken)
        if broken != correct and _compiles(bug.apply(source)):
            found.setdefault((edit.line, broken), bug)
    return tuple(found.values())


def _compiles(source: str) -> bool:
    try:
        compile(source, "<bug>", "exec")
    except SyntaxError:
        return False
    return True


def _edits(function: ast.FunctionDef, lines: list[str]) -> Iterator[_Edit]:
    names = _local_names(function)
    for statement in function.body[1:]:  # the docstring stays
        for node in ast.walk(statement):
            if isinstance(node, ast.expr) and node.lineno != node.end_lineno:
                continue
            yield from _of_node(node, lines, names)


def _of_node(node: ast.AST, lines: list[str], names: tuple[str, ...]) -> Iterator[_Edit]:
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            yield from _between("comparison", _COMPARE.get(type(op)), left, right, lines)
        case ast.BinOp(left=left, op=operator, right=right):
            yield from _between("operator", _BINARY.get(type(operator)), left, right, lines)
        case ast.AugAssign(target=target, op=operator, value=value):
            yield from _between("operator", _BINARY.get(type(operator)), target, value, lines)
        case ast.BoolOp(op=ast.And(), values=[left, right]):
            yield from _between("operator", ("and", ("or",)), left, right, lines)
        case ast.BoolOp(op=ast.Or(), values=[left, right]):
            yield from _between("operator", ("or", ("and",)), left, right, lines)
        case ast.Constant(value=bool() as value):
            yield _replace("wrong-return", node, str(not value))
        case ast.Constant(value=int() as value):
            yield _replace("boundary", node, str(value + 1))
            if value > 0:
                yield _replace("boundary", node, str(value - 1))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield _replace("missing-negation", node, _text(operand, lines))
        case ast.UnaryOp(op=ast.USub(), operand=ast.Name() as operand):
            yield _replace("operator", node, operand.id)
        case ast.Call(args=[first, second, *_]):
            swapped = f"{_text(second, lines)}, {_text(first, lines)}"
            yield _Edit(
                "swapped-arguments", first.lineno, first.col_offset, second.end_col_offset or 0, swapped
            )
        case ast.Return(value=ast.Name(id=name)):
            for other in names:
                if other != name:
                    yield _replace("wrong-return", node, f"return {other}")
        case ast.Name(id=name, ctx=ast.Load()) if name in names:
            for other in names:
                if other != name:
                    yield _replace("wrong-variable", node, other)


def _between(
    kind: str, words: tuple[str, tuple[str, ...]] | None, left: ast.expr, right: ast.expr, lines: list[str]
) -> Iterator[_Edit]:
    """Edits of the operator written between two operands (parentheses around them are skipped)."""
    if words is None or left.end_lineno != right.lineno or left.end_col_offset is None:
        return
    word, others = words
    at = lines[right.lineno - 1].find(word, left.end_col_offset, right.col_offset)
    if at >= 0:
        for other in others:
            yield _Edit(kind, right.lineno, at, at + len(word), other)


def _replace(kind: str, node: ast.expr | ast.stmt, text: str) -> _Edit:
    return _Edit(kind, node.lineno, node.col_offset, node.end_col_offset or 0, text)


def _text(node: ast.expr, lines: list[str]) -> str:
    return lines[node.lineno - 1][node.col_offset : node.end_col_offset]


def _local_names(function: ast.FunctionDef) -> tuple[str, ...]:
    """Arguments, then assigned names, in the order they appear."""
    names = [argument.arg for argument in function.args.args]
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id not in names:
            names.append(node.id)
    return tuple(names)
