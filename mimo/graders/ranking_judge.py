"""GAR by a judge: all passes of a group at once, anonymous, in an order and its reverse; the mean of both.

An answer without exactly every label, with a number out of range, or no answer in either order is unusable.
Both orders unusable: None, and the group keeps its advantages.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import cast

from mimo.algo.quality import DIMENSIONS
from mimo.graders.envelope import as_data, transcript
from mimo.graders.judge import Judge, Refused, prompt
from mimo.graders.ranking import Judged, Quality, qualities
from mimo.graders.rubric_judge import TEXTS, Seen, evidence_holds, facts_text, object_schema, strings
from mimo.types import Json


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedGroup:
    """`qualities` by rollout_id or None (fall back); `disagree`: pairs that the two orders rank apart."""

    qualities: dict[str, Quality] | None
    orders: int
    pairs: int
    disagree: int


def judged_group(judge: Judge, instruction: str, group: Sequence[Seen], *, seed: int) -> JudgedGroup:
    """The quality of every pass of the group by two readings of a judge."""
    passes = sorted((s for s in group if s.facts.passed), key=lambda s: s.rollout.rollout_id)
    failures = [seen for seen in group if not seen.facts.passed]
    if len(passes) < 2:
        return JudgedGroup(qualities=None, orders=0, pairs=0, disagree=0)
    random.Random(seed).shuffle(passes)
    orders = [passes, passes[::-1]]
    questions = [_question(instruction, order, failures) for order in orders]
    found = judge.ask_all(questions, _schema(len(passes)), [_reader(order) for order in orders])
    readings = [row for row in found if row is not None]
    if not readings:
        return JudgedGroup(qualities=None, orders=0, pairs=0, disagree=0)
    pairs, disagree = _disagreement(readings)
    merged = [_merged([reading[s.rollout.rollout_id] for reading in readings]) for s in passes]
    return JudgedGroup(qualities=qualities(merged), orders=len(readings), pairs=pairs, disagree=disagree)


def _labels(number: int) -> list[str]:
    return [f"P{place}" for place in range(1, number + 1)]


def _question(instruction: str, passes: Sequence[Seen], failures: Sequence[Seen]) -> str:
    labels = _labels(len(passes))
    return prompt(
        "rank_passes",
        task=as_data("task", instruction),
        passes="\n\n".join(_shown(label, seen) for label, seen in zip(labels, passes, strict=True)),
        failures="\n\n".join(_shown("a failure", seen) for seen in failures[:4]) or "none",
    )


def _shown(label: str, seen: Seen) -> str:
    parts = (
        as_data("patch", seen.diff, max_chars=4000),
        facts_text(seen.facts),
        as_data("transcript", transcript(seen.rollout.contexts), max_chars=3000),
    )
    return "\n".join([label, *parts])


def _reader(order: Sequence[Seen]) -> Callable[[dict[str, Json]], dict[str, Judged]]:
    labels = dict(zip(_labels(len(order)), order, strict=True))

    def read(data: dict[str, Json]) -> dict[str, Judged]:
        rows = data.get("passes")
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise Refused("passes must be a list of objects")
        entries = cast("list[dict[str, Json]]", rows)
        if sorted(str(row.get("label")) for row in entries) != sorted(labels):
            raise Refused("each label must appear exactly once")
        judged = [_judged(row, labels[str(row["label"])]) for row in entries]
        return {item.rollout_id: item for item in judged}

    return read


def _judged(row: Mapping[str, Json], seen: Seen) -> Judged:
    values = [row.get(name) for name in DIMENSIONS]
    if not all(isinstance(v, int) and not isinstance(v, bool) and 1 <= v <= 5 for v in values):
        raise Refused("every check needs an integer from 1 to 5")
    first, second, third, fourth, fifth = (float(cast(int, value)) for value in values)
    cited = row.get("evidence", {})
    if (
        not isinstance(cited, dict)
        or not isinstance(row.get("serious"), bool)
        or not isinstance(row.get("bypass"), bool)
    ):
        raise Refused("evidence must be an object, serious and bypass must be true or false")
    evidence = {
        name: kept
        for name, lines in cited.items()
        if (kept := tuple(line[:200] for line in strings(lines) if evidence_holds(line, seen)))
    }
    return Judged(
        rollout_id=seen.rollout.rollout_id,
        scores=(first, second, third, fourth, fifth),
        evidence={**evidence, **({"process": sum(evidence.values(), ())} if evidence else {})},
        serious=bool(row["serious"]),
        bypass=bool(row["bypass"]),
    )


def _merged(readings: Sequence[Judged]) -> Judged:
    """The mean of the readings; a problem counts only if every reading saw it."""
    first, second, third, fourth, fifth = (
        fmean(reading.scores[place] for reading in readings) for place in range(len(DIMENSIONS))
    )
    names = {name for reading in readings for name in reading.evidence}
    evidence = {
        name: tuple(dict.fromkeys(line for reading in readings for line in reading.evidence.get(name, ())))
        for name in sorted(names)
    }
    return Judged(
        rollout_id=readings[0].rollout_id,
        scores=(first, second, third, fourth, fifth),
        evidence=evidence,
        serious=all(reading.serious for reading in readings),
        bypass=all(reading.bypass for reading in readings),
    )


def _disagreement(readings: Sequence[dict[str, Judged]]) -> tuple[int, int]:
    """Pairs of passes, and those that one reading ranks above and the other below."""
    if len(readings) < 2:
        return 0, 0
    names = sorted(readings[0])
    totals = [{name: sum(reading[name].scores) for name in names} for reading in readings]
    pairs = [(a, b) for place, a in enumerate(names) for b in names[place + 1 :]]
    apart = [(totals[0][a] - totals[0][b]) * (totals[1][a] - totals[1][b]) < 0 for a, b in pairs]
    return len(pairs), sum(apart)


def _schema(number: int) -> dict[str, Json]:
    labels: list[Json] = list[Json](_labels(number))
    score: dict[str, Json] = {"type": "integer", "minimum": 1, "maximum": 5}
    checks: dict[str, Json] = dict.fromkeys(DIMENSIONS, score)
    item = object_schema(
        {
            "label": {"type": "string", "enum": labels},
            "evidence": object_schema(dict.fromkeys((*DIMENSIONS, "process"), TEXTS)),
            **checks,
            "serious": {"type": "boolean"},
            "bypass": {"type": "boolean"},
        }
    )
    return object_schema({"passes": {"type": "array", "items": item}})
