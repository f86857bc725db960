"""The hack audit of a file of trajectories: what each did on a route to the answer, and where."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import cast

from mimo.errors import RecipeError
from mimo.hacks.audit import TaskFacts, audit_rollout
from mimo.hacks.needles import Needles, Secrets, build_needles
from mimo.hacks.trajectories import Trajectory, read_trajectory, unknown_keys
from mimo.types import HackVerdict, Json

_EVIDENCE = re.compile(r"^(?:context (?P<context>\S+) turn (?P<turn>\d+)(?: (?P<proof>.*))?|(?P<other>.*)): "
                       r"(?P<route>\w+)(?P<sure> \(evidence\))?$", re.S)  # fmt: skip
_QUOTE = 300
_MOST_PROBLEMS = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class RouteTaken:
    """A step on a route: `turn` is the message's number (a turn's for our own records), `quote` the call.

    `proof` is what makes it evidence, None where only the text of the call speaks.
    """

    route: str
    context: str | None
    turn: int | None
    quote: str
    proof: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Audited:
    """A trajectory that is not clean."""

    id: str
    line: int
    verdict: str
    passed: bool | None
    taken: tuple[RouteTaken, ...]


@dataclass(kw_only=True, slots=True)
class FileAudit:
    """The audit of a file; `notes` say what was read otherwise than written."""

    file: str
    verdicts: Counter[str] = field(default_factory=Counter)
    routes: dict[str, Counter[str]] = field(default_factory=dict)
    found: list[Audited] = field(default_factory=list)
    without_reference: int = 0
    """Trajectories on a route that had no `reference`: nothing but a broken canary can confirm them."""
    notes: Counter[str] = field(default_factory=Counter)

    @property
    def confirmed(self) -> int:
        """Trajectories with a confirmed hack."""
        return self.verdicts[str(HackVerdict.CONFIRMED)]

    def as_json(self) -> dict[str, Json]:
        """The audit as data."""
        return {
            "schema": 1,
            "file": self.file,
            "trajectories": sum(self.verdicts.values()),
            "verdicts": cast(Json, dict(self.verdicts)),
            "routes": {route: cast(Json, dict(count)) for route, count in sorted(self.routes.items())},
            "without_reference": self.without_reference,
            "notes": cast(Json, dict(self.notes)),
            "found": [cast(Json, asdict(item)) for item in self.found],
        }


def audit_file(file: Path) -> FileAudit:
    """The audit of every trajectory of a file of JSON lines (gzip or plain).

    Raises:
        RecipeError: the file cannot be read, holds nothing, or some lines are no trajectories.
    """
    audit = FileAudit(file=str(file))
    problems: list[str] = []
    for number, line in _lines(file):
        try:
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError(f"got {type(row).__name__}, expected an object")
            trajectory = read_trajectory(row, f"line {number}")
        except ValueError as error:
            problems.append(f"line {number}: {error}")
            continue
        for key in unknown_keys(row):
            audit.notes[f"key {key!r} is not read"] += 1
        _see(audit, number, trajectory)
    if problems:
        more = f"\n  and {len(problems) - _MOST_PROBLEMS} more" if len(problems) > _MOST_PROBLEMS else ""
        told = "\n  ".join(problems[:_MOST_PROBLEMS])
        raise RecipeError(
            f"{file}: {len(problems)} lines are no trajectories:\n  {told}{more}",
            hint="docs/audit.md has the two formats",
        )
    if not audit.verdicts:
        raise RecipeError(f"{file} holds no trajectory", hint="docs/audit.md has the two formats")
    return audit


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with open(file, "rb") as probe:
            packed = probe.read(2) == b"\x1f\x8b"
        with gzip.open(file, "rb") if packed else open(file, "rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield number, line
    except (OSError, EOFError) as error:
        raise RecipeError(
            f"{file} cannot be read: {getattr(error, 'strerror', None) or error}",
            hint="a file of trajectories, .jsonl or .jsonl.gz (docs/audit.md)",
        ) from error


def _see(audit: FileAudit, number: int, trajectory: Trajectory) -> None:
    rollout = trajectory.rollout
    finding = audit_rollout(rollout, TaskFacts(needles=_needles(trajectory.reference)))
    audit.verdicts[str(finding.verdict)] += 1
    if trajectory.fenced:
        audit.notes["calls read from fenced bash"] += 1
    if finding.verdict is HackVerdict.CLEAN:
        return
    audit.without_reference += not trajectory.reference
    for route in finding.routes:
        audit.routes.setdefault(route, Counter())[str(finding.verdict)] += 1
    audit.found.append(
        Audited(
            id=rollout.rollout_id,
            line=number,
            verdict=str(finding.verdict),
            passed=None if rollout.verdict is None else rollout.verdict.passed,
            taken=tuple(_taken(trajectory, text) for text in finding.evidence),
        )
    )


def _needles(reference: str) -> Needles:
    """Of the lines that the diff adds; those that it keeps or removes are no secret."""
    if not reference.strip():
        return Needles()
    lines = [line for line in reference.splitlines() if not line.startswith(("+++", "---"))]
    added = "".join(f"{line[1:]}\n" for line in lines if line.startswith("+"))
    known = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("+"))
    return build_needles(Secrets(reference={"reference": added.encode()}), [known.encode()])


def _taken(trajectory: Trajectory, evidence: str) -> RouteTaken:
    found = _EVIDENCE.match(evidence)
    assert found is not None, evidence
    if found["turn"] is None:
        sure = found["other"] if found["sure"] else None
        return RouteTaken(route=found["route"], context=None, turn=None, quote=found["other"], proof=sure)
    number = int(found["turn"])
    places = trajectory.places
    return RouteTaken(
        route=found["route"],
        context=found["context"],
        turn=number if places is None else places[number],
        quote=_quote(trajectory, found["context"], number),
        proof=found["proof"] if found["sure"] else None,
    )


def _quote(trajectory: Trajectory, context_id: str, number: int) -> str:
    """The calls of a turn, cut."""
    context = next(item for item in trajectory.rollout.contexts if item.context_id == context_id)
    said = "; ".join(
        " ".join([call.name, *(f"{key}={value}" for key, value in call.arguments.items())])
        for call in context.turns[number].tool_calls
    )
    return said if len(said) <= _QUOTE else f"{said[:_QUOTE]} [cut: {len(said)} characters]"
