"""docs/counts.md names every count that the code makes, and none that it does not make."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
BY_TABLE = {
    "mimo/stages/demonstrations.py": (
        "own mistake not played",
        "own mistake dropped",
        "recorded mistake not played",
        "recorded mistake dropped",
    ),
    "mimo/stages/probe_hacks.py": (
        "environment quarantined",
        "environment scrubbed",
        "packed piece that could not be searched",
    ),
    "mimo/stages/rubrics_loop.py": ("task without a judged attempt", "task that no attempt solves"),
    "mimo/stages/signal_counts.py": (
        "rollout truncated",
        "turn cut at its token limit",
        "tool output cut",
        "context with old observations dropped",
        "changes of a rollout cut off",
        "judge gave no answer",
        "judge's answer not usable",
    ),
}
"""Modules that count under a name out of a table of theirs, with the names."""
PASSED_ON = {"mimo/pipeline/context.py", "mimo/pipeline/counted_warnings.py"}
"""Modules that only pass a name on."""
HOLE = "…"


def documented() -> set[str]:
    """The names in the first column of the page's tables."""
    page = (ROOT / "docs" / "counts.md").read_text(encoding="utf-8")
    return set(re.findall(r"^\| `([^`]+)` \|", page, re.M))


def modules() -> Iterator[tuple[str, ast.Module]]:
    for package in ("mimo", "sandbox"):
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def literals(node: ast.expr) -> list[str]:
    """The texts that an expression may be, with `…` for what is filled in; empty where that is not plain."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.JoinedStr):
        return ["".join(str(p.value) if isinstance(p, ast.Constant) else HOLE for p in node.values)]
    return []


def counted(tree: ast.Module) -> Iterator[ast.expr]:
    """The first argument of every `….count(what, …)` on something that counts (a text has none of these)."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
            continue
        if node.func.attr != "count":
            continue
        owner = node.func.value
        name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
        if name in ("ctx", "_ctx", "_counts", "self"):
            yield node.args[0]


def warned(tree: ast.Module) -> Iterator[str]:
    """What a warning of `mimo` or `sandbox` is counted under."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args:
            once = isinstance(node.func, ast.Name) and node.func.id == "_warn_once"
            if once or (isinstance(node.func, ast.Attribute) and node.func.attr == "warning"):
                yield from (text.partition(" (")[0] for text in literals(node.args[0]))


def test_every_count_is_on_the_page_and_every_row_is_counted() -> None:
    made: set[str] = set()
    for name, tree in modules():
        made |= set(warned(tree))
        for what in counted(tree):
            texts = literals(what)
            made |= set(texts)
            assert texts or name in BY_TABLE or name in PASSED_ON, (
                f"{name}:{what.lineno}: a count whose name is not written here; add it to BY_TABLE"
            )
    for name, names in BY_TABLE.items():
        code = (ROOT / name).read_text(encoding="utf-8")
        parts = {part for text in names for part in text.split() if len(part) > 3}
        assert all(part in code for part in parts), f"{name} does not count under these names any more"
        made |= set(names)
    assert len(made) > 50
    assert made - documented() == set(), "add a row to docs/counts.md"
    assert documented() - made == set(), "docs/counts.md has a row that nothing counts"
