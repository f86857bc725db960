"""Facts of a patch: files and lines touched, size against the reference, what it adds or takes away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice
from pathlib import PurePosixPath

from mimo.graders.constructs import REMOVALS, sightings
from mimo.graders.difference import FileDifference, file_difference
from mimo.graders.fitted import Case, asserted_cases, fitted_branches
from mimo.graders.ground import Ground
from mimo.graders.style import departures
from mimo.graders.syntax import Sighting, functions, parsed
from mimo.types import Json, record
from sandbox.base import Changes, FileChange

MAX_FILES = 40
"""Files of one patch that are analysed; more are counted as touched only."""
MAX_FINDINGS = 60
_MAX_SIGHTINGS = 20_000
_CONFIGURATION = frozenset(
    {"conftest.py", "pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml", "noxfile.py"}
    | {"makefile", ".coveragerc", "mypy.ini", ".flake8", "ruff.toml", ".ruff.toml"}
    | {".pre-commit-config.yaml", "sitecustomize.py", "usercustomize.py"}
)


@record
class Finding:
    """Evidence: which check, where (line 0: the whole file), what; texts are cut and without controls."""

    check: str
    path: str
    line: int
    what: str

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        return f"{place}: {self.check}: {self.what}"


@record
class PatchFacts:
    """One patch. Line counts leave protected files out (the verifier does not carry those over).

    `reference_lines` and `same_as_reference` are None without a reference. `functions` are those whose lines
    changed, as `path:name`; `foreign_functions` those among them that the reference leaves alone.
    """

    files: tuple[str, ...]
    protected: tuple[str, ...]
    unrelated: tuple[str, ...]
    lines: int
    cosmetic_lines: int
    reference_lines: int | None
    same_as_reference: bool | None
    functions: tuple[str, ...]
    foreign_functions: tuple[str, ...]
    unreadable: tuple[str, ...]
    capped: bool
    findings: tuple[Finding, ...]

    def of(self, *checks: str) -> tuple[Finding, ...]:
        """The findings of these checks."""
        return tuple(finding for finding in self.findings if finding.check in checks)


def patch_facts(changes: Changes, ground: Ground, refused: Mapping[str, Json]) -> PatchFacts:
    """The facts of `changes`; `refused` maps paths that the verifier left out to its reasons."""
    reference = {} if ground.reference is None else {c.path: c.data for c in ground.reference.files}
    protected = tuple(sorted(str(path) for path in refused))
    counted = [change for change in changes.files if change.path not in refused]
    analysed = counted[:MAX_FILES]
    rows = [file_difference(c.path, ground.base.get(c.path), c.data) for c in analysed]
    aims = {path: file_difference(path, ground.base.get(path), data) for path, data in reference.items()}
    related = ground.related
    touched = {name for row in rows for name in _touched(row)}
    wanted = {name for row in aims.values() for name in _touched(row)}
    found = [*_configuration(changes.files, reference), *_of_files(rows, aims, asserted_cases(ground.tests))]
    return PatchFacts(
        files=tuple(sorted(_clean(change.path) for change in counted)),
        protected=tuple(_clean(path) for path in protected),
        unrelated=tuple(sorted(_clean(c.path) for c in counted if related and c.path not in related)),
        lines=sum(row.changed for row in rows),
        cosmetic_lines=sum(row.cosmetic for row in rows),
        reference_lines=None if ground.reference is None else sum(row.changed for row in aims.values()),
        same_as_reference=None if ground.reference is None else _same(counted, ground.reference),
        functions=tuple(sorted(map(_clean, touched))),
        foreign_functions=tuple(sorted(map(_clean, touched - wanted))) if aims else (),
        unreadable=tuple(sorted(_clean(row.path) for row in rows if _unreadable(row))),
        capped=changes.capped or len(counted) > MAX_FILES,
        findings=tuple(found[:MAX_FINDINGS]),
    )


def _same(counted: Sequence[FileChange], reference: Changes) -> bool:
    return {c.path: c.data for c in counted} == {c.path: c.data for c in reference.files}


def _unreadable(row: FileDifference) -> bool:
    if row.deleted:
        return False
    return not row.readable or (row.path.endswith(".py") and parsed(row.after) is None)


def _touched(row: FileDifference) -> set[str]:
    """Functions of the new file that hold added lines, or of the old one where the new has fewer lines."""
    tree = parsed(row.after) if row.path.endswith(".py") else None
    if tree is None:
        return set()
    names = set()
    places = functions(tree)
    for number in row.added:
        inner = [name for name, first, last in places if first <= number <= last]
        if inner:
            names.add(f"{row.path}:{inner[-1]}")
    return names


def _configuration(files: Iterable[FileChange], reference: Mapping[str, bytes | None]) -> list[Finding]:
    rows = []
    for change in files:
        name = PurePosixPath(change.path).name.lower()
        inside = change.path.lower().startswith((".github/", ".circleci/", ".gitlab"))
        if (name in _CONFIGURATION or inside) and change.path not in reference:
            rows.append(_finding(change.path, Sighting("evaluation", "changes test or build settings", 0)))
    return rows


def _of_files(
    rows: Sequence[FileDifference], aims: Mapping[str, FileDifference], cases: frozenset[Case]
) -> list[Finding]:
    found: list[Finding] = []
    for row in rows:
        if row.path.endswith(".py"):
            aim = aims.get(row.path)
            found += [_finding(row.path, sighting) for sighting in _charged(row, aim, cases)]
    for row in rows:  # last, so that a flood of them hides nothing
        found += [_finding(row.path, sighting) for sighting in departures(row)]
    return found


def _charged(row: FileDifference, aim: FileDifference | None, cases: frozenset[Case]) -> list[Sighting]:
    """What the file has now and had neither before nor in the reference; for REMOVALS the other way round."""
    now = _constructs(row.after, row.path, cases)
    if now is None:
        return []
    was = _constructs(row.before, row.path, cases) or ()
    goal = was if aim is None else _constructs(aim.after, row.path, cases) or ()
    counts, before, excused = map(_counted, (now, was, goal))
    places = {(item.check, item.key): item for item in now}
    charged = []
    for kind in counts | before:
        check, key = kind
        if check in REMOVALS:
            gone = min(before[kind], excused[kind]) - counts[kind]
            if gone > 0:
                charged.append(Sighting(check, f"takes away {key}", 0))
        elif counts[kind] > max(before[kind], excused[kind]) and not (before[kind] and "debug" in key):
            charged.append(places[kind])
    return sorted(charged, key=lambda item: (item.line, item.check, item.key))


def _counted(items: Iterable[Sighting]) -> Counter[tuple[str, str]]:
    return Counter((item.check, item.key) for item in items)


@lru_cache(maxsize=128)
def _constructs(source: str, path: str, cases: frozenset[Case]) -> tuple[Sighting, ...] | None:
    tree = parsed(source)
    if tree is None:
        return None
    found = chain(fitted_branches(tree, cases), sightings(tree, path))
    return tuple(islice(found, _MAX_SIGHTINGS))


def _finding(path: str, sighting: Sighting) -> Finding:
    return Finding(
        check=sighting.check, path=_clean(path), line=sighting.line, what=_clean(sighting.key)[:120]
    )


def _clean(text: str) -> str:
    """A policy's text as evidence: printable characters only, cut."""
    return "".join(char if char.isprintable() else "·" for char in text[:200])
