"""The recipe's entry `kind: pypi-pair`: a real repair, from the source archives of two neighbouring releases.

The old source with its own tests is what the policy sees; the new release's tests are the hidden ones; the
difference of the sources (without version strings, changelog and packaging files) is the reference. Which
tests matter is found when the folder is imported, by running them on both. We keep nothing of the package.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.parser import BytesHeaderParser
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Self, cast

from mimo.domains.coding.sdist import fetch, unpack
from mimo.errors import RecipeError
from mimo.types import Json, Split

_PACKAGING = ("PKG-INFO", "*.egg-info/*", "setup.cfg", "setup.py", "pyproject.toml", "MANIFEST.in", "tox.ini")
_WORKSHOP = (".*", "Makefile")
"""Settings of editors, services and builds: no part of a repair."""
_PROSE = ("*.rst", "*.md", "*.txt", "CHANGE*", "NEWS*", "HISTORY*", "AUTHORS*", "docs/*", "doc/*")
_TESTS = ("tests/*", "test/*", "test_*.py", "*_test.py", "conftest.py")
_NOT_IN_TREE = ("PKG-INFO", "*.egg-info/*", "*.pyc", ".git/*")


@dataclass(frozen=True, kw_only=True, slots=True)
class PypiPair:
    """One task."""

    package: str
    old: str
    new: str
    sha256_old: str
    sha256_new: str
    split: Split
    license: str | None

    @classmethod
    def of(cls, source: Mapping[str, Json]) -> Self:
        """From the recipe's entry."""
        text = {key: cast(str, source[key]) for key in ("package", "old", "new", "sha256_old", "sha256_new")}
        license_name = source.get("license")
        return cls(
            **text,
            split=cast(Split, source.get("split", "heldout")),
            license=license_name if isinstance(license_name, str) else None,
        )

    def task_ids(self) -> Sequence[str]:
        """One id; it does not name the package."""
        digest = hashlib.sha256(f"{self.sha256_old}/{self.sha256_new}".encode()).hexdigest()
        return (f"p{digest[:12]}",)

    def build(self, task_id: str, folder: Path) -> Path:
        """Fetch both archives and write the task folder.

        Raises:
            RecipeError: an archive cannot be had or has another hash; no tests; nothing changed.
        """
        if task_id not in self.task_ids():
            raise RecipeError(f"this source makes no task {task_id}")
        cache = folder.parent / "sdists"
        old = unpack(fetch(self.package, self.old, self.sha256_old, cache))
        new = unpack(fetch(self.package, self.new, self.sha256_new, cache))
        reference = self._reference(old, new)
        tests = {path: data for path, data in new.items() if _any(path, _TESTS)}
        if not any(path.endswith(".py") for path in tests):
            raise RecipeError(f"{self.package} {self.new}: the source archive has no tests")
        if not reference:
            raise RecipeError(f"{self.package}: {self.old} and {self.new} have the same source")
        root = folder / task_id
        files = {
            "task.toml": self._task_toml(task_id, old),
            "instruction.md": self._instruction(old, new, reference).encode(),
            "environment/Dockerfile": b"FROM python:3.11-slim\nWORKDIR /work\nCOPY repo/ /work/\n",
            "solution/solve.sh": b"#!/bin/bash\ncp -R /solution/files/. .\n",
            "solution/reference.patch": _patch(old, reference),
            **{f"environment/repo/{p}": data for p, data in old.items() if not _any(p, _NOT_IN_TREE)},
            **{f"tests/{p.removeprefix('tests/')}": data for p, data in tests.items()},
            **{f"solution/files/{path}": data for path, data in reference.items() if data is not None},
        }
        gone = [path for path, data in reference.items() if data is None]
        if gone:
            files["solution/deleted.txt"] = "".join(f"{path}\n" for path in gone).encode()
        for path, data in files.items():
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        return root

    def _reference(self, old: dict[str, bytes], new: dict[str, bytes]) -> dict[str, bytes | None]:
        """New content of every source file that differs, its version strings put back to the old release."""
        left_out = (*_PACKAGING, *_WORKSHOP, *_PROSE, *_TESTS, *_NOT_IN_TREE)
        paths = [path for path in sorted({*old, *new}) if not _any(path, left_out)]
        back = {path: self._old_version(new[path]) if path in new else None for path in paths}
        return {path: data for path, data in back.items() if data != old.get(path)}

    def _old_version(self, data: bytes) -> bytes:
        """Lines that set a version say the old one."""
        lines = data.split(b"\n")
        new, old = self.new.encode(), self.old.encode()
        return b"\n".join(line.replace(new, old) if b"version" in line.lower() else line for line in lines)

    def _instruction(
        self, old: dict[str, bytes], new: dict[str, bytes], reference: Mapping[str, object]
    ) -> str:
        said = self._changelog(old, new)
        names = sorted(_test_names(new) - _test_names(old))
        rows = [f"Repair {self.package} (release {self.old}). The next release says:"]
        rows += [f"- {line}" for line in said] or ["- (its changelog says nothing)"]
        if names:
            rows.append(f"Its new tests are called: {', '.join(names)}.")
        rows.append(f"Source files: {', '.join(sorted(p for p in reference if p in old))}")
        rows.append("(This text was generated from the changelog and the names of the tests.)")
        return "\n".join(rows) + "\n"

    def _changelog(self, old: dict[str, bytes], new: dict[str, bytes]) -> list[str]:
        """Lines that the new release added to its prose, without release number and thanks."""
        found: list[str] = []
        for path in sorted(new):
            if _any(path, _PROSE) and not _any(path, _NOT_IN_TREE):
                known = set(old.get(path, b"").decode(errors="replace").splitlines())
                found += [
                    line for line in new[path].decode(errors="replace").splitlines() if line not in known
                ]
        plain = [re.sub(r"\s*\((thanks|by) [^)]*\)", "", line).strip(" -*\t") for line in found]
        plain = [line.removeprefix(self.new).strip(" :-") for line in plain]
        return [line[:300] for line in dict.fromkeys(plain) if re.search(r"[a-zA-Z]{3}", line)][:12]

    def _task_toml(self, task_id: str, old: dict[str, bytes]) -> bytes:
        facts: dict[str, Json] = {
            "schema": 1,
            "task_id": task_id,
            "domain": "coding",
            "family": f"pypi-{self.package}",
            "split": self.split,
            "kind": "pypi-pair",
            "name": self.package,
            "version": f"{self.old}..{self.new}",
            "sha256": self.sha256_old,
            "license": self.license or _license(old),
            "runner": "pytest",
            "visible": list[Json](sorted(p for p in old if _any(p, _TESTS) and p.endswith(".py"))),
        }
        rows = "\n".join(f"{key} = {json.dumps(value)}" for key, value in facts.items())
        return (
            f'version = "1.0"\n\n[task]\nname = "mimo/{task_id}"\n\n[metadata]\ndifficulty = "medium"\n\n'
            f"[metadata.mimo]\n{rows}\n\n[agent]\ntimeout_sec = 1800.0\n\n[verifier]\ntimeout_sec = 120.0\n\n"
            '[environment]\nbuild_timeout_sec = 600.0\nmemory_mb = 1024\nnetwork_mode = "no-network"\n'
        ).encode()


def _any(path: str, globs: Sequence[str]) -> bool:
    name = path.rsplit("/", 1)[-1]
    return any(fnmatchcase(path, glob) or fnmatchcase(name, glob) for glob in globs)


def _patch(old: Mapping[str, bytes], reference: Mapping[str, bytes | None]) -> bytes:
    rows: list[str] = []
    for path, data in sorted(reference.items()):
        before = old.get(path, b"").decode(errors="replace").splitlines(keepends=True)
        after = (data or b"").decode(errors="replace").splitlines(keepends=True)
        rows += difflib.unified_diff(before, after, f"a/{path}", f"b/{path}")
    return "".join(rows).encode()


def _test_names(files: Mapping[str, bytes]) -> set[str]:
    names: set[str] = set()
    for path, data in files.items():
        if _any(path, _TESTS) and path.endswith(".py"):
            tree = ast.parse(data)
            functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
            names |= {node.name for node in functions if node.name.startswith("test")}
    return names


def _license(files: Mapping[str, bytes]) -> str:
    headers = BytesHeaderParser().parsebytes(files.get("PKG-INFO", b""))
    named = headers.get("License-Expression")
    classifiers = headers.get_all("Classifier") or []
    listed = [line.rsplit("::", 1)[-1].strip() for line in classifiers if line.startswith("License ::")]
    said = named or (listed[0] if listed else headers.get("License")) or "unknown"
    return str(said).splitlines()[0][:80]
