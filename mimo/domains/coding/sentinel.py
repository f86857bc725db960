"""Hidden tests rewritten so that an always-equal value cannot pass: `a == b` compares `mimo_real(a)`."""

from __future__ import annotations

import ast

_EQUALITY_CALLS = {"assertEqual", "assertEquals", "assertListEqual", "assertDictEqual", "assertTupleEqual"}


def with_sentinels(source: str, name: str) -> str:
    """The test file with every operand of an asserted equality passed through `mimo_real`.

    Raises:
        SyntaxError: the source is no Python.
    """
    tree = _Rewrite().visit(ast.parse(source, name))
    at = 0
    for node in tree.body:
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and at == 0
        is_future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if not (is_docstring or is_future):
            break
        at += 1
    tree.body.insert(at, ast.ImportFrom(module="mimo_sentinel", names=[ast.alias(name="mimo_real")], level=0))
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


class _Rewrite(ast.NodeTransformer):
    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        """`assert a == b == c` and `assert a != b`, also inside `and`, `or` and `not`."""
        node.test = _Operands().visit(node.test)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """`self.assertEqual(a, b)`."""
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in _EQUALITY_CALLS:
            node.args = [_real(argument) if n < 2 else argument for n, argument in enumerate(node.args)]
        return node


class _Operands(ast.NodeTransformer):
    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        if all(isinstance(operator, ast.Eq | ast.NotEq) for operator in node.ops):
            node.left = _real(node.left)
            node.comparators = [_real(value) for value in node.comparators]
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return node


def _real(value: ast.expr) -> ast.expr:
    if isinstance(value, ast.Constant | ast.Starred):
        return value
    return ast.Call(func=ast.Name(id="mimo_real", ctx=ast.Load()), args=[value], keywords=[])
