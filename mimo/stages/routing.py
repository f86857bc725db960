"""Where a task goes after its attempts: GRS with a rubric, or GAR; and what its attempts say of its tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mimo.domains.base import TaskStore
from mimo.graders.catalogue import Answer
from mimo.graders.facts import Facts
from mimo.graders.judge import Judge
from mimo.graders.rubric import NoRubric, synthesize
from mimo.graders.rubric_judge import Seen, judged_answers, written_criteria
from mimo.recipe.models import Recipe
from mimo.rollouts.changes import read_changes
from mimo.rollouts.loop import Finished
from mimo.rollouts.store import RolloutStore
from mimo.stages.graders_view import ground_for, seen_of
from mimo.stages.task_audit import TaskFlag, task_flags
from mimo.types import Criterion, Rubric, Task

MAX_SHOWN = 8
"""Attempts of a contrast."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Routed:
    """The task with `pass_rate` and `routing`; its rubric, or why a task of high pass rate has none."""

    task: Task
    rubric: Rubric | None
    no_rubric: str | None
    flags: tuple[TaskFlag, ...]


def stored_attempts(store: RolloutStore) -> Iterator[Finished]:
    """Every attempt on disk with its changes, without its tokens."""
    for step in store.steps():
        for rollout in store.rollouts(step):
            changes = None if rollout.diff is None else read_changes(store.folder / "diffs", rollout.diff)
            yield Finished(rollout=rollout, payload=None, changes=changes)


def route(
    recipe: Recipe, store: TaskStore, task: Task, attempts: Sequence[Finished], *, judge: Judge | None
) -> Routed:
    """The routing of one task by its attempts; those without a verdict count neither way."""
    ground = ground_for(task, store, attempts)
    seen = [seen_of(item, ground) for item in attempts if item.rollout.verdict is not None]
    facts = [row.facts for row in seen]
    flags = tuple(task_flags(task.task_id, facts))
    if not facts:
        return Routed(task=replace(task, routing="gar"), rubric=None, no_rubric=None, flags=flags)
    rate = sum(item.passed for item in facts) / len(facts)
    rubric: Rubric | NoRubric | None = None
    if rate >= recipe.grading.grs_min_pass_rate:
        rubric = _rubric(recipe, task, facts) if judge is None else _judged_rubric(recipe, task, seen, judge)
    made = rubric if isinstance(rubric, Rubric) else None
    return Routed(
        task=replace(task, pass_rate=rate, routing="grs" if made is not None else "gar"),
        rubric=made,
        no_rubric=f"{task.task_id}: {rubric.reason}" if isinstance(rubric, NoRubric) else None,
        flags=flags,
    )


def _rubric(recipe: Recipe, task: Task, facts: Sequence[Facts]) -> Rubric | NoRubric:
    minimum = recipe.synthesize_rubrics.min_separating
    return synthesize(task.task_id, facts, min_separating=minimum, most=MAX_SHOWN)


def _judged_rubric(recipe: Recipe, task: Task, seen: Sequence[Seen], judge: Judge) -> Rubric | NoRubric:
    """The rubric by program analysis and every criterion of the judge's that tells the passes apart."""
    minimum = recipe.synthesize_rubrics.min_separating
    measured = synthesize(task.task_id, [row.facts for row in seen], min_separating=0, most=MAX_SHOWN)
    if isinstance(measured, NoRubric):
        return measured
    shown = [row for row in seen if row.rollout.rollout_id in measured.attempts]
    proposed = written_criteria(judge, task.instruction, shown) or ()
    answers = judged_answers(judge, proposed, task.instruction, shown)
    telling = tuple(criterion for criterion in proposed if _tells_apart(criterion, answers))
    plain = synthesize(
        task.task_id, [r.facts for r in seen], min_separating=minimum - len(telling), most=MAX_SHOWN
    )
    if isinstance(plain, NoRubric):
        return replace(plain, reason=f"{plain.reason}, {len(telling)} of the judge's {len(proposed)}")
    return replace(plain, criteria=(*plain.criteria, *telling))


def _tells_apart(criterion: Criterion, answers: Sequence[dict[str, Answer | None]]) -> bool:
    """Whether every attempt has an answer and they differ."""
    found = [row.get(criterion.id) for row in answers]
    return {answer.yes for answer in found if answer is not None} == {True, False} and None not in found
