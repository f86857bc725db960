"""Audit and grade a step's groups, between sampling and the learning signal (METHOD 7, steps 2 and 3).

Per group: the hack audit, then by its method either both rubric scores of every pass (GRS) or the quality
factors of a mixed group's passes (GAR). What cannot be graded stays None: ungraded passes leave a GRS group,
a GAR group keeps its own advantages. Everything that happened is counted; `metrics()` gives the numbers.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mimo.domains.base import TaskStore
from mimo.graders.catalogue import Answer
from mimo.graders.judge import Judge
from mimo.graders.ranking import Quality, ranked
from mimo.graders.ranking_judge import judged_group
from mimo.graders.rubric import Scores, score
from mimo.graders.rubric_judge import Seen, judged_answers
from mimo.records import from_line
from mimo.rollouts.loop import derived_seed
from mimo.rollouts.signal import SampledGroup
from mimo.stages.base import StageContext
from mimo.stages.grade_metrics import GradeTally
from mimo.stages.graders_view import ground_for, passes, seen_of, verified
from mimo.stages.signal_counts import count_judge
from mimo.types import Grades, HackFinding, HackVerdict, Rubric, Task

Audit = Callable[[SampledGroup], Sequence[HackFinding]]
"""A finding for every rollout of a group, in its order."""


class Grading:
    """Audits and grades the groups of one stage; matches `collect.Grade`."""

    def __init__(
        self,
        ctx: StageContext,
        store: TaskStore,
        rubrics: Mapping[str, Rubric],
        *,
        audit: Audit,
        judge: Judge | None = None,
    ) -> None:
        self._ctx = ctx
        self._store = store
        self._rubrics = rubrics
        self._audit = audit
        self._judge = judge
        self._tally = GradeTally()
        self._told: Counter[str] = Counter()
        self.seconds = 0.0
        """Wall seconds of grading since the last `metrics()`."""

    def __call__(self, groups: Sequence[SampledGroup]) -> list[SampledGroup]:
        """The groups with `hack`, `grades` and the grading seconds in every rollout."""
        graded = []
        for group in groups:
            started = time.monotonic()
            rows = self._graded(self._audited(group))
            if self._judge is not None:
                count_judge(self._ctx, self._judge.failures, self._told)
            seconds = time.monotonic() - started
            self.seconds += seconds
            graded.append(_with_seconds(rows, seconds))
        return graded

    def metrics(self) -> dict[str, float]:
        """The numbers since the last call (METHOD 14)."""
        tally, self._tally = self._tally, GradeTally()
        if self._judge is not None:
            tally.judge(self._judge)
        seconds, self.seconds = self.seconds, 0.0
        return tally.metrics() | {"time/grade_s": seconds}

    def _audited(self, group: SampledGroup) -> SampledGroup:
        findings = self._audit(group)
        rows = tuple(
            replace(item, rollout=replace(item.rollout, hack=finding))
            for item, finding in zip(group.finished, findings, strict=True)
        )
        for finding in findings:
            if finding.verdict is not HackVerdict.CLEAN:
                self._ctx.count(f"hack audit: {finding.verdict}", why=", ".join(finding.routes))
        self._tally.audit(findings, honest=sum(map(passes, rows)), passed=sum(map(verified, rows)))
        return replace(group, finished=rows)

    def _graded(self, group: SampledGroup) -> SampledGroup:
        passed = [item for item in group.finished if passes(item)]
        if group.method == "grs":
            return self._by_rubric(group) if passed else group
        if group.method == "gar":
            judged = sum(item.rollout.verdict is not None for item in group.finished)
            return self._by_rank(group) if self._tally.routed(len(passed), judged) else group
        return group

    def _by_rubric(self, group: SampledGroup) -> SampledGroup:
        task = group.plan.task
        rubric = self._rubrics.get(task.task_id)
        if rubric is None:
            self._ctx.count("GRS group without a rubric", why=task.task_id)
            return group
        seen = [row for row in self._seen(group) if row.facts.passed]
        answers = self._answers(rubric, task, seen)
        scores = {
            row.rollout.rollout_id: score(rubric, row.facts, answer)
            for row, answer in zip(seen, answers, strict=True)
        }
        if ungraded := sum(item.solution is None for item in scores.values()):
            self._ctx.count("rollout ungraded", ungraded, why="a criterion has no answer")
        self._tally.rubric(list(scores.values()))
        return _with_grades(group, {name: self._grades(item) for name, item in scores.items()})

    def _answers(self, rubric: Rubric, task: Task, seen: Sequence[Seen]) -> list[dict[str, Answer | None]]:
        if self._judge is None:
            return [{} for _ in seen]
        return judged_answers(self._judge, rubric.criteria, task.instruction, seen)

    def _grades(self, scores: Scores) -> Grades:
        return Grades(
            solution=scores.solution,
            behavior=scores.behavior,
            evidence=scores.evidence,
            grader="rubric:rules" if self._judge is None else f"rubric:rules+{self._judge.config.model}",
        )

    def _by_rank(self, group: SampledGroup) -> SampledGroup:
        started = time.monotonic()
        seen = self._seen(group)
        found = self._ranked(group, seen)
        self._tally.ranking(found, {row.rollout.rollout_id: row.rollout for row in seen}, started)
        if found is None:
            self._ctx.count("GAR group not judged", why=group.plan.group_id)
            return group
        grader = "ranking:rules" if self._judge is None else f"ranking:{self._judge.config.model}"
        grades = {
            name: Grades(quality=item.factor, tier=item.tier, evidence=item.evidence, grader=grader)
            for name, item in found.items()
        }
        return _with_grades(group, grades)

    def _ranked(self, group: SampledGroup, seen: Sequence[Seen]) -> dict[str, Quality] | None:
        if self._judge is None:
            return ranked([row.facts for row in seen])
        seed = derived_seed("rank", self._ctx.recipe.seed, group.plan.group_id)
        judged = judged_group(self._judge, group.plan.task.instruction, seen, seed=seed)
        self._tally.probes(judged.pairs, judged.disagree)
        if judged.orders == 1:
            self._ctx.count("GAR group judged in one order only", why=group.plan.group_id)
        return judged.qualities

    def _seen(self, group: SampledGroup) -> list[Seen]:
        """Every rollout of the group that has a verdict, with its facts."""
        ground = ground_for(group.plan.task, self._store, group.finished)
        return [seen_of(item, ground) for item in group.finished if item.rollout.verdict is not None]


def read_rubrics(folder: Path) -> dict[str, Rubric]:
    """task_id -> rubric of a synthesize-rubrics output; empty where there is none."""
    path = folder / "rubrics.jsonl"
    if not path.is_file():
        return {}
    with open(path, "rb") as lines:
        return {rubric.task_id: rubric for line in lines for rubric in [from_line(Rubric, line)]}


def unaudited(group: SampledGroup) -> list[HackFinding]:
    """No audit: every rollout says so, and is counted."""
    return [HackFinding(verdict=HackVerdict.UNAUDITED) for _ in group.finished]


def _with_grades(group: SampledGroup, grades: Mapping[str, Grades]) -> SampledGroup:
    rows = tuple(
        replace(item, rollout=replace(item.rollout, grades=grades.get(item.rollout.rollout_id)))
        for item in group.finished
    )
    return replace(group, finished=rows)


def _with_seconds(group: SampledGroup, seconds: float) -> SampledGroup:
    """The group's grading time, shared evenly by its rollouts."""
    share = seconds / max(1, len(group.finished))
    rows = tuple(
        replace(item, rollout=replace(item.rollout, seconds=replace(item.rollout.seconds, grade=share)))
        for item in group.finished
    )
    return replace(group, finished=rows)
