"""Paths a policy's changes may not touch: tests, test configuration, start-up files, shadows of modules."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from sandbox.base import FileChange

PROTECTED = (
    "**/conftest.py",
    "**/test_*.py",
    "**/*_test.py",
    "**/tests/**",
    "**/test/**",
    "**/pytest.ini",
    "**/.pytest.ini",
    "**/tox.ini",
    "**/setup.cfg",
    "**/pyproject.toml",
    "**/noxfile.py",
    "**/sitecustomize.py",
    "**/usercustomize.py",
    "**/*.pth",
    "**/*.pyc",
    "**/*.so",
    "**/__pycache__/**",
    "**/*.dist-info/**",
    "**/*.egg-info/**",
    "**/entry_points.txt",
    "**/.git/**",
)
"""Globs over paths from the work tree's root; `**/` also stands for no folder at all."""

TOOL_MODULES = frozenset({"pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "coverage"})


def refusals(
    changes: Iterable[FileChange], protected: Sequence[str], modules: frozenset[str]
) -> tuple[list[FileChange], dict[str, str]]:
    """The changes that may be carried over, and path to reason of the others.

    Args:
        protected: globs.
        modules: top-level module names of the work tree as it was; a new one must not shadow another.
    """
    allowed, refused = [], {}
    for change in changes:
        reason = change.refused or refusal(change.path, protected, modules)
        if reason is None:
            allowed.append(change)
        else:
            refused[change.path] = reason
    return allowed, refused


def refusal(path: str, protected: Sequence[str], modules: frozenset[str]) -> str | None:
    """Why a change of this path is not carried into the verifier's tree, or None."""
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or not pure.parts or "\0" in path:
        return "leaves the work tree"
    for glob in protected:
        if matches(path, glob):
            return f"protected ({glob})"
    shadowed = next((name for name in _module_names(pure) if name not in modules and _is_known(name)), None)
    return None if shadowed is None else f"shadows the module {shadowed}"


def matches(path: str, glob: str) -> bool:
    """Whether the glob covers the path; `**/` may stand for nothing, case does not count."""
    text, pattern = path.lower(), glob.lower()
    return fnmatchcase(text, pattern) or fnmatchcase(f"./{text}", pattern.replace("**/", "*/", 1))


def _module_names(path: PurePosixPath) -> list[str]:
    """Names a file makes importable from the work tree's root or from `src`."""
    parts = path.parts[1:] if path.parts[0] == "src" and len(path.parts) > 1 else path.parts
    return [parts[0].split(".")[0]] if len(parts) > 1 or path.suffix in (".py", ".so", ".pyd") else []


def _is_known(name: str) -> bool:
    return name in sys.stdlib_module_names or name in TOOL_MODULES
