"""Candidate patches of one task, in a folder, put in order by program analysis: GAR's grader."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from mimo.domains.coding.importer import copy_tree
from mimo.domains.coding.imports.importing import CannotImport
from mimo.domains.coding.imports.repository import Base, Tree
from mimo.domains.coding.protected import PROTECTED, matches, refusals
from mimo.domains.coding.reference import reference_changes, reference_files
from mimo.errors import RecipeError
from mimo.graders.facts import Facts, facts_of
from mimo.graders.ground import Ground
from mimo.graders.ranking import Quality, ranked
from mimo.types import Json, Rollout, RolloutStatus, Verdict
from sandbox.base import Changes, FileChange
from sandbox.git_rebuild import init_git
from sandbox.scratch import temporary_parent

RESULTS = "results.json"
_TREES = ("base", "environment/repo")
_PATCHES = (".patch", ".diff")
_TESTS = ("**/test_*.py", "**/*_test.py")


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranked:
    """A patch: its place from 1 (equal ones share it; None: it failed), tier, factor, and the evidence."""

    name: str
    place: int | None
    passed: bool
    tier: str | None
    factor: float | None
    weighted: float | None
    lines: int
    evidence: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranking:
    """The patches in order, failed ones last; `notes` say what was taken for granted."""

    folder: str
    patches: tuple[Ranked, ...]
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Json]:
        """The ranking as data."""
        rows: list[Json] = [{**asdict(item), "evidence": list(item.evidence)} for item in self.patches]
        return {"schema": 1, "folder": self.folder, "patches": rows, "notes": list(self.notes)}


def rank_folder(folder: Path) -> Ranking:
    """The patches below `folder/patches`, in order.

    The work tree before them is `base/` or, of a task folder, `environment/repo/`; `instruction.md` and
    `solution/files` are used where they are there. `results.json` maps a patch's file name to whether it
    passes the task's tests; one it does not name, or all without it, count as passing.

    Raises:
        RecipeError: no work tree, fewer than two passing patches, or one that does not apply.
    """
    tree = next((folder / name for name in _TREES if (folder / name).is_dir()), None)
    if tree is None:
        raise RecipeError(
            f"{folder}: no base/ and no environment/repo/", hint="put the work tree before the patches there"
        )
    files = sorted(path for path in (folder / "patches").glob("*") if path.suffix in _PATCHES)
    if not files:
        raise RecipeError(
            f"{folder / 'patches'}: no .patch or .diff file", hint="one unified diff a candidate"
        )
    passed, notes = _results(folder, [path.name for path in files])
    changes, before = _changes(tree, files)
    ground = _ground(folder, before, changes)
    modules = frozenset(path.partition("/")[0].partition(".")[0] for path in before.files)
    facts = {name: _facts(name, item, passed[name], ground, modules) for name, item in changes.items()}
    found = ranked(list(facts.values()))
    if found is None:
        raise RecipeError(
            f"{folder}: {sum(passed.values())} of {len(files)} patches pass; an order needs two",
            hint=f"{RESULTS} says which pass",
        )
    if ground.reference is None:
        notes.append("no solution/files: every function counts as part of the repair")
    return Ranking(folder=str(folder), patches=tuple(_ordered(facts, found)), notes=tuple(notes))


def _results(folder: Path, names: list[str]) -> tuple[dict[str, bool], list[str]]:
    file = folder / RESULTS
    if not file.is_file():
        return dict.fromkeys(names, True), [f"no {RESULTS}: every patch counts as passing"]
    try:
        said = json.loads(file.read_bytes())
    except ValueError as error:
        raise RecipeError(f"{file}: not JSON: {error}") from error
    if not isinstance(said, dict) or not all(isinstance(value, bool) for value in said.values()):
        raise RecipeError(f"{file}: expected an object of file name to true or false")
    if unknown := sorted(said.keys() - set(names)):
        raise RecipeError(f"{file} names {unknown[0]}, which is not in patches/")
    left = [name for name in names if name not in said]
    notes = [f"{RESULTS} does not name {', '.join(left)}: counted as passing"] if left else []
    return {name: said.get(name, True) for name in names}, notes


def _changes(tree: Path, files: list[Path]) -> tuple[dict[str, Changes], Tree]:
    """What each patch makes of the work tree; git works on a copy in an empty repository of its own."""
    with tempfile.TemporaryDirectory(prefix="mimo-rank-", dir=temporary_parent()) as name:
        copy = Path(name) / "tree"
        copy_tree(tree, copy)
        with Base(copy, init_git(copy)) as base:
            before = base.tree(base.commit)
            return {path.name: _changed(base, path) for path in files}, before


def _changed(base: Base, patch: Path) -> Changes:
    try:
        after = base.patched([(patch.name, patch.read_text(errors="surrogateescape"))])
        paths, tree = base.changed(after), base.tree(after)
    except CannotImport as error:
        raise RecipeError(f"{patch}: {error}") from error
    rows = [
        FileChange(
            path=path,
            data=tree.files.get(path),
            mode=0o644 if path in tree.files else None,
            refused="a link" if path in tree.links else None,
        )
        for path in paths
    ]
    return Changes(files=tuple(rows), capped=False)


def _ground(folder: Path, before: Tree, changes: dict[str, Changes]) -> Ground:
    reference = reference_changes(folder) if reference_files(folder) else None
    touched = {change.path for item in changes.values() for change in item.files}
    touched |= {change.path for change in reference.files} if reference else set()
    tests = {
        path: data.decode("utf-8", "replace")
        for path, data in before.files.items()
        if any(matches(path, glob) for glob in _TESTS)
    }
    instruction = folder / "instruction.md"
    return Ground(
        task_id=folder.name,
        instruction=instruction.read_text(errors="replace") if instruction.is_file() else "",
        base={path: data for path, data in before.files.items() if path in touched or path in tests},
        tests=tests,
        reference=reference,
    )


def _facts(name: str, changes: Changes, passed: bool, ground: Ground, modules: frozenset[str]) -> Facts:
    """The patch's facts; there is no transcript, so nothing is said of how it came about."""
    _, refused = refusals(changes.files, PROTECTED, modules)
    rollout = Rollout(
        rollout_id=name,
        group_id="",
        task_id=ground.task_id,
        domain="coding",
        harness="",
        policy="",
        step=0,
        seed=0,
        status=RolloutStatus.DONE,
        verdict=Verdict(passed=passed, tampered=False, detail={"refused": dict[str, Json](refused)}),
    )
    return facts_of(rollout, changes, ground)


def _ordered(facts: dict[str, Facts], found: dict[str, Quality]) -> Iterator[Ranked]:
    def value(name: str) -> tuple[float, float]:
        return -found[name].factor, -found[name].weighted

    passes = sorted(found, key=lambda name: (*value(name), name))
    for name in passes:
        quality = found[name]
        yield Ranked(
            name=name,
            place=1 + sum(value(other) < value(name) for other in passes),
            passed=True,
            tier=quality.tier,
            factor=quality.factor,
            weighted=quality.weighted,
            lines=facts[name].patch.lines,
            evidence=quality.evidence,
        )
    for name in sorted(facts.keys() - found.keys()):
        lines = facts[name].patch.lines
        yield Ranked(
            name=name,
            place=None,
            passed=False,
            tier=None,
            factor=None,
            weighted=None,
            lines=lines,
            evidence=(),
        )
