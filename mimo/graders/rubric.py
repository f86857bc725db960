"""GRS's grader: rubrics from the contrast of real attempts, and the two scores of a rollout.

S = sum_j w_j s_j / sum_j w_j over the criteria of one set, s_j in {0, 1}; a failed gate makes it 0. A judge's
missing answer leaves the rollout ungraded (None), never a number. Source: METHOD 3.1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from mimo.graders.catalogue import BY_ID, CATALOGUE, GATES, Answer, Measurable
from mimo.graders.facts import Facts
from mimo.types import Criterion, Rubric

SetName = Literal["solution", "behavior"]
SETS: tuple[SetName, ...] = ("solution", "behavior")
_ALWAYS = {"solution": "s-swallow", "behavior": "b-wellformed"}
"""Always answered: a set keeps it unless a separating criterion of its own was answered by every attempt."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scores:
    """Both scores in [0, 1], or None for an ungraded rollout; evidence of every no; failed gates; answers."""

    solution: float | None
    behavior: float | None
    evidence: tuple[str, ...]
    gates: tuple[str, ...]
    answers: Mapping[str, bool | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class NoRubric:
    """Why a task has no rubric."""

    reason: str
    separating: tuple[str, ...] = ()


def synthesize(
    task_id: str, attempts: Sequence[Facts], *, min_separating: int, most: int = 8
) -> Rubric | NoRubric:
    """The rubric of a task: every criterion that tells its passing attempts apart, and the gates.

    Failed attempts are no part of the contrast: their reward is 0 whatever the rubric says.

    Args:
        attempts: facts of the task's attempts, in any order.
        min_separating: separating criteria (of both sets together) a rubric needs.
        most: attempts that the rubric names as its contrast, chosen to differ.
    """
    passing = [facts for facts in attempts if facts.passed]
    if len(passing) < 2:
        return NoRubric(reason=f"{len(passing)} of {len(attempts)} attempts pass; a contrast needs two")
    chosen = chosen_to_differ(passing, most)
    separating = [entry for entry in CATALOGUE if separates(entry, passing)]
    names = tuple(entry.criterion.id for entry in separating)
    if len(separating) < min_separating:
        return NoRubric(
            reason=f"{len(separating)} measurable criteria tell the passing attempts apart, "
            f"{min_separating} needed",
            separating=names,
        )
    criteria = _with_gates(separating, passing)
    rubric = Rubric(task_id=task_id, criteria=criteria, attempts=(), separation=None)
    return Rubric(
        task_id=task_id,
        criteria=criteria,
        attempts=tuple(facts.rollout_id for facts in chosen),
        separation=separation(rubric, passing),
    )


def separates(entry: Measurable, attempts: Sequence[Facts]) -> bool:
    """Whether the criterion says yes to one attempt and no to another."""
    answers = {answer.yes for facts in attempts if (answer := entry.measure(facts)) is not None}
    return len(answers) == 2


def _with_gates(separating: Sequence[Measurable], attempts: Sequence[Facts]) -> tuple[Criterion, ...]:
    chosen = {entry.criterion.id for entry in separating} | {gate.criterion.id for gate in GATES}
    for name, fallback in _ALWAYS.items():
        weighed = [e for e in separating if e.criterion.set == name and not is_gate(e.criterion)]
        if not any(all(entry.measure(facts) is not None for facts in attempts) for entry in weighed):
            chosen.add(fallback)
    return tuple(entry.criterion for entry in CATALOGUE if entry.criterion.id in chosen)


def chosen_to_differ(attempts: Sequence[Facts], most: int) -> list[Facts]:
    """At most `most` attempts, each as far as possible from those before; twins come only once.

    The order of the input does not matter.
    """
    rows = {facts.rollout_id: _signature(facts) for facts in attempts}
    left = sorted(attempts, key=lambda facts: (rows[facts.rollout_id], facts.rollout_id))
    chosen: list[Facts] = []
    while left and len(chosen) < most:
        far = [min((_apart(rows, one, other) for other in chosen), default=1) for one in left]
        if max(far) == 0:
            break
        chosen.append(left.pop(far.index(max(far))))
    return chosen


def _signature(facts: Facts) -> tuple[str, ...]:
    answers = [entry.measure(facts) for entry in CATALOGUE]
    words = ["-" if answer is None else "ny"[answer.yes] for answer in answers]
    return (*words, *facts.patch.files, *facts.patch.functions, str(facts.patch.lines))


def _apart(rows: Mapping[str, tuple[str, ...]], one: Facts, other: Facts) -> int:
    first, second = rows[one.rollout_id], rows[other.rollout_id]
    return sum(a != b for a, b in zip(first, second, strict=False)) + abs(len(first) - len(second))


def separation(rubric: Rubric, attempts: Sequence[Facts]) -> float:
    """Share of pairs of attempts whose product of scores differs."""
    products = []
    for facts in attempts:
        scores = score(rubric, facts)
        products.append((scores.solution or 0.0) * (scores.behavior or 0.0))
    pairs = list(combinations(products, 2))
    return sum(not math.isclose(a, b) for a, b in pairs) / max(1, len(pairs))


def score(rubric: Rubric, facts: Facts, judged: Mapping[str, Answer | None] | None = None) -> Scores:
    """The two scores of a rollout.

    Args:
        judged: answers of a judge to the criteria with method `llm`, by id; a missing one or None leaves the
            rollout ungraded.
    """
    answers, unanswered = _answers(rubric.criteria, facts, judged or {})
    gates = tuple(
        c.id for c in rubric.criteria if is_gate(c) and (a := answers.get(c.id)) is not None and not a.yes
    )
    evidence = [
        f"{name}: {line}"
        for name, answer in answers.items()
        if answer is not None and not answer.yes
        for line in answer.evidence or ("no",)
    ]
    values = {name: _set_score(rubric.criteria, answers, name) for name in SETS}
    if unanswered or None in values.values():
        values = dict.fromkeys(SETS)
        evidence.append(f"ungraded: no answer to {', '.join(unanswered) or 'any criterion of a set'}")
    return Scores(
        solution=values["solution"],
        behavior=values["behavior"],
        evidence=tuple(evidence),
        gates=gates,
        answers={name: None if answer is None else answer.yes for name, answer in answers.items()},
    )


def is_gate(criterion: Criterion) -> bool:
    """Whether a no makes the set's score 0."""
    return criterion.method == "rule" and criterion.tier == "critical"


def _answers(
    criteria: Sequence[Criterion], facts: Facts, judged: Mapping[str, Answer | None]
) -> tuple[dict[str, Answer | None], list[str]]:
    """Answers by id (None: does not apply), and the ids that should have an answer and have none."""
    answers: dict[str, Answer | None] = {}
    unanswered = []
    for criterion in criteria:
        known = BY_ID.get(criterion.id)
        if criterion.method == "rule" and known is not None:
            answers[criterion.id] = known.measure(facts)
        elif (answer := judged.get(criterion.id)) is not None:
            answers[criterion.id] = answer
        else:
            unanswered.append(criterion.id)
    return answers, unanswered


def _set_score(
    criteria: Sequence[Criterion], answers: Mapping[str, Answer | None], name: SetName
) -> float | None:
    rows = [(c, a) for c in criteria if c.set == name and (a := answers.get(c.id)) is not None]
    if any(is_gate(criterion) and not answer.yes for criterion, answer in rows):
        return 0.0
    weighed = [(c.weight, float(a.yes)) for c, a in rows if not is_gate(c)]
    total = sum(weight for weight, _ in weighed)
    return sum(weight * value for weight, value in weighed) / total if total > 0 else None
