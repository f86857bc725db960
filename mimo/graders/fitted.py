"""Values of the visible tests written into the code: `if x == 3: return 9` where a test says `f(3) == 9`."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

from mimo.graders.syntax import Sighting, parsed

_COMMON = frozenset({"0", "1", "-1", "''", "None", "True", "False", "[]", "()", "{}"})
"""Values that honest base cases use; a branch made of these alone is not charged."""
_MOST_BRANCHES = 20_000

Case = tuple[frozenset[str], str]
"""Literals among a call's arguments, and the literal the test expects."""


def asserted_cases(tests: Mapping[str, str]) -> frozenset[Case]:
    """The `assert f(literals) == literal` (also `is`) of the visible tests."""
    found: set[Case] = set()
    for source in tests.values():
        tree = parsed(source)
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.Assert) and (case := _case(node.test)) is not None:
                found.add(case)
    return frozenset(found)


def fitted_branches(tree: ast.Module, cases: Iterable[Case]) -> Iterator[Sighting]:
    """Branches that give back a test's expected literal for one of its argument literals."""
    known = list(cases)
    for number, (value, result, line) in enumerate(_branches(tree)):
        if number >= _MOST_BRANCHES:
            return
        hit = any(value in arguments and result == expected for arguments, expected in known)
        if hit and not (value in _COMMON and result in _COMMON):
            yield Sighting("fitted", f"{value} gives {result}", line)


def _case(test: ast.expr) -> Case | None:
    match test:
        case ast.Compare(left=ast.Call() as call, ops=[ast.Eq() | ast.Is()], comparators=[wanted]):
            values = [*call.args, *(keyword.value for keyword in call.keywords)]
            arguments = frozenset(text for value in values if (text := literal(value)) is not None)
            expected = literal(wanted)
            if arguments and expected is not None:
                whole = _tuple_of(values)
                return arguments | ({whole} if whole else set()), expected
    return None


def _tuple_of(values: list[ast.expr]) -> str | None:
    texts = [literal(value) for value in values]
    known = [text for text in texts if text is not None]
    return f"({', '.join(known)})" if len(known) == len(texts) and len(texts) > 1 else None


def _branches(tree: ast.Module) -> Iterator[tuple[str, str, int]]:
    for node in ast.walk(tree):
        match node:
            case ast.If(test=test, body=[ast.Return(value=ast.expr() as result), *_]):
                yield from _pairs(_compared(test), result, node.lineno)
            case ast.IfExp(test=test, body=result):
                yield from _pairs(_compared(test), result, node.lineno)
            case ast.Match(cases=cases):
                for case in cases:
                    yield from _match_case(case)
            case ast.Dict(keys=keys, values=results):
                for key, result in zip(keys, results, strict=True):
                    if key is not None:
                        yield from _pairs([key], result, key.lineno)


def _match_case(case: ast.match_case) -> Iterator[tuple[str, str, int]]:
    match case:
        case ast.match_case(
            pattern=ast.MatchValue(value=value), body=[ast.Return(value=ast.expr() as result)]
        ):
            yield from _pairs([value], result, value.lineno)


def _compared(test: ast.expr) -> list[ast.expr]:
    """The literals that `test` compares a value with."""
    match test:
        case ast.Compare(left=left, ops=[ast.Eq() | ast.Is()], comparators=[right]):
            return [left, right]
        case ast.Compare(ops=[ast.In()], comparators=[ast.Tuple(elts=values) | ast.List(elts=values)]):
            return values
        case ast.BoolOp(op=ast.And() | ast.Or(), values=parts):
            return [
                value for part in parts[:20] if isinstance(part, ast.Compare) for value in _compared(part)
            ]
    return []


def _pairs(values: list[ast.expr], result: ast.expr, line: int) -> Iterator[tuple[str, str, int]]:
    given = literal(result)
    if given is not None:
        for value in values:
            if (text := literal(value)) is not None:
                yield text, given, line


def literal(node: ast.expr) -> str | None:
    """The value of a literal as text, at most 200 characters; None for anything else."""
    if not isinstance(node, (ast.Constant, ast.UnaryOp, ast.List, ast.Tuple, ast.Dict, ast.Set)):
        return None
    try:
        text = repr(ast.literal_eval(node))
    except (ValueError, TypeError, RecursionError, MemoryError, SyntaxError):
        return None
    return text if len(text) <= 200 else None
