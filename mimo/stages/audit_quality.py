"""How good the audit's own rollouts are, by policy: graded scores, ranks in contrast, the maintainer's word.

By program analysis alone, so that every policy of every run is measured with the same rule: all criteria of
the catalogue as one rubric (solution and behaviour, as GRS scores them; a failure's product is 0), and GAR's
factor of each pass against all policies' rollouts of the same task. A confirmed hack counts as a failure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from mimo.domains.base import TaskStore
from mimo.graders.catalogue import CATALOGUE
from mimo.graders.facts import Facts, facts_with, refused_paths
from mimo.graders.maintainer import MaintainerAudit, maintainer_audit, refusal_reasons
from mimo.graders.patch import PatchFacts, patch_facts
from mimo.graders.ranking import ranked
from mimo.graders.rubric import score
from mimo.rollouts.changes import read_changes
from mimo.rollouts.loop import Finished
from mimo.rollouts.rates import Rate, mean_score, pass_rate
from mimo.rollouts.store import RolloutStore
from mimo.stages.graders_view import NOTHING, ground_for
from mimo.types import Rollout, Rubric, Split, Task

EVERYTHING = Rubric(
    task_id="",
    criteria=tuple(entry.criterion for entry in CATALOGUE),
    attempts=(),
    separation=None,
)
"""Every measurable criterion; those that do not apply to a rollout are left out of its score."""
PATCHED = frozenset({"coding"})
"""Domains whose passing rollouts are patches that a maintainer would be asked to merge."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Graded:
    """One evaluation rollout that has a verdict; `solution` to `factor` are None unless it passes and was
    graded, `patch` is None unless it passes with a patch."""

    rollout_id: str
    policy: str
    task_id: str
    split: Split
    passed: bool
    solution: float | None = None
    behavior: float | None = None
    factor: float | None = None
    patch: PatchFacts | None = None

    @property
    def product(self) -> float | None:
        """Verdict x solution x behaviour: 0 for a failure, None for a pass without scores."""
        if not self.passed:
            return 0.0
        if self.solution is None or self.behavior is None:
            return None
        return self.solution * self.behavior


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyQuality:
    """One policy on one split. `ungraded` passes have no score, `unjudged` rollouts no verdict."""

    policy: str
    split: Split
    rollouts: int
    passed: int
    ungraded: int
    unjudged: int
    solution: Rate
    behavior: Rate
    product: Rate
    factor: Rate
    maintainer: MaintainerAudit
    accepted: Rate


def graded(
    rollouts: Mapping[str, Sequence[Rollout]],
    folder: RolloutStore,
    store: TaskStore,
    tasks: Mapping[str, Task],
    *,
    confirmed: frozenset[str],
    on_task: Callable[[int, int], None],
) -> list[Graded]:
    """Every rollout with a verdict, graded task by task.

    Args:
        rollouts: policy -> its evaluation rollouts. folder: where their changes lie.
        confirmed: ids of rollouts with a confirmed hack.
    """
    rows = [(policy, item) for policy, some in rollouts.items() for item in some if item.verdict is not None]
    rows.sort(key=lambda row: row[1].task_id)
    names = {item.task_id for _, item in rows}
    found: list[Graded] = []
    for number, (task_id, some) in enumerate(groupby(rows, key=lambda row: row[1].task_id)):
        on_task(number, len(names))
        found += _of_task(tasks[task_id], list(some), folder, store, confirmed)
    return found


def _of_task(
    task: Task,
    rows: Sequence[tuple[str, Rollout]],
    folder: RolloutStore,
    store: TaskStore,
    confirmed: frozenset[str],
) -> list[Graded]:
    finished = [_finished(item, folder) for _, item in rows]
    ground = ground_for(task, store, finished)
    analysed: dict[tuple[str | None, ...], PatchFacts] = {}
    facts = []
    for item in finished:
        refused = refused_paths(item.rollout)
        key = (item.rollout.diff, *sorted(refused))
        if key not in analysed:
            analysed[key] = patch_facts(item.changes or NOTHING, ground, refused)
        facts.append(facts_with(item.rollout, analysed[key], ground))
    honest = [replace(item, passed=item.passed and item.rollout_id not in confirmed) for item in facts]
    factors = ranked(honest) or {}
    return [
        _graded(task, policy, item, factors[item.rollout_id].factor if item.rollout_id in factors else None)
        for (policy, _), item in zip(rows, honest, strict=True)
    ]


def _graded(task: Task, policy: str, facts: Facts, factor: float | None) -> Graded:
    base = Graded(
        rollout_id=facts.rollout_id,
        policy=policy,
        task_id=task.task_id,
        split=task.split,
        passed=facts.passed,
    )
    if not facts.passed:
        return base
    scores = score(EVERYTHING, facts)
    patch = facts.patch if task.domain in PATCHED else None
    return replace(base, solution=scores.solution, behavior=scores.behavior, factor=factor, patch=patch)


def qualities(
    rows: Sequence[Graded],
    rollouts: Mapping[str, Sequence[Rollout]],
    tasks: Mapping[str, Task],
    *,
    confidence: float,
) -> list[PolicyQuality]:
    """One entry a policy and split that has rollouts, held-out first."""
    splits: tuple[Split, ...] = ("heldout", "train")
    found = []
    for policy, some in rollouts.items():
        for split in splits:
            sampled = [item for item in some if tasks[item.task_id].split == split]
            mine = [row for row in rows if row.policy == policy and row.split == split]
            if sampled:
                found.append(_quality(policy, split, sampled, mine, confidence))
    return found


def _quality(
    policy: str, split: Split, sampled: Sequence[Rollout], rows: Sequence[Graded], confidence: float
) -> PolicyQuality:
    passes = [row for row in rows if row.passed]
    patches = [row for row in passes if row.patch is not None]

    def rate(some: Sequence[Graded], value: Callable[[Graded], float | None]) -> Rate:
        return mean_score(_by_task(some, value), confidence=confidence)

    return PolicyQuality(
        policy=policy,
        split=split,
        rollouts=len(sampled),
        passed=len(passes),
        ungraded=sum(row.product is None for row in passes),
        unjudged=len(sampled) - len(rows),
        solution=rate(passes, lambda row: row.solution),
        behavior=rate(passes, lambda row: row.behavior),
        product=rate(rows, lambda row: row.product),
        factor=rate(passes, lambda row: row.factor),
        maintainer=maintainer_audit(
            [(row.rollout_id, row.patch) for row in patches if row.patch is not None]
        ),
        accepted=pass_rate(_accepted(patches), confidence=confidence),
    )


def _accepted(patches: Sequence[Graded]) -> dict[str, list[bool]]:
    found: dict[str, list[bool]] = defaultdict(list)
    for row in patches:
        if row.patch is not None:
            found[row.task_id].append(not refusal_reasons(row.patch))
    return found


def _by_task(rows: Sequence[Graded], value: Callable[[Graded], float | None]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        number = value(row)
        if number is not None:
            found[row.task_id].append(number)
    return found


def _finished(rollout: Rollout, folder: RolloutStore) -> Finished:
    changes = None if rollout.diff is None else read_changes(folder.folder / "diffs", rollout.diff)
    return Finished(rollout=rollout, payload=None, changes=changes)
