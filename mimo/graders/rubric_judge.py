"""GRS by a judge: it writes criteria from the contrast, and answers those with method `llm`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from mimo.graders.catalogue import Answer
from mimo.graders.envelope import as_data, transcript
from mimo.graders.facts import Facts
from mimo.graders.judge import Judge, Refused, prompt
from mimo.records import to_json
from mimo.types import Criterion, Json, Rollout

MAX_CRITERIA = 8
_PLACE = re.compile(r"^(?P<path>[^:\s][^:]*):(?P<line>\d+)\b|^turn (?P<turn>\d+)\b")


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """What a judge is shown of a rollout; `diff` is its patch as text."""

    rollout: Rollout
    facts: Facts
    diff: str


def judged_answers(
    judge: Judge, criteria: Sequence[Criterion], instruction: str, rollouts: Sequence[Seen]
) -> list[dict[str, Answer | None]]:
    """Per rollout the answers to the `llm` criteria by id; None where the judge did not answer."""
    asked = [criterion for criterion in criteria if criterion.method == "llm"]
    if not asked:
        return [{} for _ in rollouts]
    questions = [_question(asked, instruction, seen) for seen in rollouts]
    reads = [_reader(asked, seen) for seen in rollouts]
    found = judge.ask_all(questions, _answers_schema(asked), reads)
    return [dict.fromkeys([c.id for c in asked]) if row is None else row for row in found]


def written_criteria(
    judge: Judge, instruction: str, attempts: Sequence[Seen]
) -> tuple[Criterion, ...] | None:
    """Criteria a judge proposes for the task (ids `l-1`, …); None if it gave no usable answer."""
    shown = "\n\n".join(_shown(f"attempt {number}", seen) for number, seen in enumerate(attempts, 1))
    question = prompt("write_criteria", task=as_data("task", instruction), attempts=shown)
    return judge.ask(question, _CRITERIA_SCHEMA, _read_criteria)


def evidence_holds(line: str, seen: Seen) -> bool:
    """Whether cited evidence exists: a file of the patch, or a turn of the transcript."""
    match = _PLACE.match(line.strip())
    if match is None:
        return False
    if match["turn"] is not None:
        return 1 <= int(match["turn"][:6]) <= seen.facts.behavior.turns
    known = {*seen.facts.patch.files, *seen.facts.patch.protected}
    return match["path"] in known and int(match["line"][:9]) >= 0


def _question(criteria: Sequence[Criterion], instruction: str, seen: Seen) -> str:
    rows = [
        f"- {c.id} ({c.set}): {c.question} Yes means: {c.pass_anchor}. Evidence: {c.evidence}."
        for c in criteria
    ]
    return prompt(
        "answer_criteria",
        questions=as_data("questions", "\n".join(rows)),
        facts=facts_text(seen.facts),
        task=as_data("task", instruction),
        patch=as_data("patch", seen.diff),
        transcript=as_data("transcript", transcript(seen.rollout.contexts)),
    )


def facts_text(facts: Facts) -> str:
    """The facts as JSON, without the rollout's name."""
    data = to_json(facts)
    del data["schema"], data["rollout_id"]
    return as_data("facts", json.dumps(data, ensure_ascii=True, sort_keys=True))


def _shown(name: str, seen: Seen) -> str:
    outcome = "passes" if seen.facts.passed else "fails"
    return f"{name} ({outcome})\n{as_data('patch', seen.diff, max_chars=4000)}\n{facts_text(seen.facts)}"


def _reader(
    criteria: Sequence[Criterion], seen: Seen
) -> Callable[[dict[str, Json]], dict[str, Answer | None]]:
    ids = [criterion.id for criterion in criteria]

    def read(data: dict[str, Json]) -> dict[str, Answer | None]:
        rows = _list_of_objects(data, "answers")
        names = [row.get("id") for row in rows]
        if sorted(map(str, names)) != sorted(ids):
            raise Refused("each id must appear exactly once")
        return {str(row["id"]): _one_answer(row, seen) for row in rows}

    return read


def _one_answer(row: Mapping[str, Json], seen: Seen) -> Answer | None:
    """A no whose evidence does not exist is void: no answer."""
    word = row.get("answer")
    if word not in ("yes", "no", "unknown"):
        raise Refused("answer must be yes, no or unknown")
    lines = strings(row.get("evidence", []))
    if word == "no":
        kept = tuple(line[:200] for line in lines if evidence_holds(line, seen))
        return Answer(False, kept) if kept else None
    return Answer(True) if word == "yes" else None


def strings(value: Json) -> list[str]:
    """A list of texts; Refused for anything else."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value) or len(value) > 50:
        raise Refused("evidence must be a list of texts")
    return [str(item) for item in value]


def _list_of_objects(data: Mapping[str, Json], key: str) -> list[dict[str, Json]]:
    rows = data.get(key)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise Refused(f"{key} must be a list of objects")
    return cast("list[dict[str, Json]]", rows)


def _read_criteria(data: dict[str, Json]) -> tuple[Criterion, ...]:
    rows = _list_of_objects(data, "criteria")
    if not 1 <= len(rows) <= MAX_CRITERIA:
        raise Refused(f"1 to {MAX_CRITERIA} criteria")
    return tuple(_criterion(number, row) for number, row in enumerate(rows, 1))


def _criterion(number: int, row: Mapping[str, Json]) -> Criterion:
    name, tier, weight = row.get("set"), row.get("tier"), row.get("weight")
    if name not in ("solution", "behavior") or tier not in ("critical", "important"):
        raise Refused("set must be solution or behavior, tier critical or important")
    if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0.1 <= weight <= 1:
        raise Refused("weight must be a number from 0.1 to 1")
    texts = [row.get(key) for key in ("question", "pass_anchor", "evidence")]
    if not all(isinstance(text, str) and 0 < len(text) <= 400 for text in texts):
        raise Refused("question, pass_anchor and evidence must be texts of at most 400 characters")
    question, anchor, evidence = map(str, texts)
    return Criterion(
        id=f"l-{number}",
        set="solution" if name == "solution" else "behavior",
        tier="critical" if tier == "critical" else "important",
        weight=float(weight),
        method="llm",
        question=question,
        pass_anchor=anchor,
        evidence=evidence,
    )


def _answers_schema(criteria: Sequence[Criterion]) -> dict[str, Json]:
    ids: list[Json] = [criterion.id for criterion in criteria]
    words: list[Json] = ["yes", "no", "unknown"]
    item = object_schema(
        {
            "id": {"type": "string", "enum": ids},
            "evidence": TEXTS,
            "answer": {"type": "string", "enum": words},
        }
    )
    return object_schema({"answers": {"type": "array", "items": item}})


def object_schema(properties: dict[str, Json]) -> dict[str, Json]:
    """The schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list[Json](properties),
        "additionalProperties": False,
    }


TEXTS: dict[str, Json] = {"type": "array", "items": {"type": "string"}}
_TEXT: dict[str, Json] = {"type": "string"}
_SETS: list[Json] = ["solution", "behavior"]
_TIERS: list[Json] = ["critical", "important"]
_CRITERIA_SCHEMA = object_schema(
    {
        "criteria": {
            "type": "array",
            "items": object_schema(
                {
                    "question": _TEXT,
                    "pass_anchor": _TEXT,
                    "evidence": _TEXT,
                    "set": {"type": "string", "enum": _SETS},
                    "tier": {"type": "string", "enum": _TIERS},
                    "weight": {"type": "number"},
                }
            ),
        }
    }
)
