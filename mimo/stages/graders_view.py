"""What graders of every stage see of a rollout, and the model that may be asked.

Apart from how scores are made of it, so that a fix in one stage's grader leaves the other stages' results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mimo.domains import load_domain
from mimo.domains.base import TaskStore
from mimo.graders.facts import facts_of
from mimo.graders.ground import Ground, ground_of
from mimo.graders.judge import Judge, JudgeConfig
from mimo.graders.rubric_judge import Seen
from mimo.recipe.environment import with_environment
from mimo.recipe.models import Recipe
from mimo.rollouts.changes import unified_diff
from mimo.rollouts.loop import Finished
from mimo.types import HackVerdict, Task
from sandbox.base import Changes

NOTHING = Changes(files=(), capped=False)


def ground_for(task: Task, store: TaskStore, finished: Sequence[Finished]) -> Ground:
    """The task's side of grading these rollouts."""
    reference = load_domain(task.domain).reference(task, store)
    touched = [item.changes for item in finished if item.changes is not None]
    return ground_of(task, store.snapshot(task), reference, touched)


def seen_of(item: Finished, ground: Ground) -> Seen:
    """A rollout as graders see it; a confirmed hack counts as a failure."""
    facts = facts_of(item.rollout, item.changes, ground)
    if facts.passed and not passes(item):
        facts = replace(facts, passed=False)
    return Seen(rollout=item.rollout, facts=facts, diff=unified_diff(item.changes or NOTHING, ground.base))


def open_judge(recipe: Recipe) -> Judge | None:
    """The recipe's grading model, or None where program analysis grades alone."""
    spec = recipe.grading.judge
    if spec is None:
        return None
    runtime = with_environment(recipe.runtime.judge)
    assert runtime.url is not None  # the recipe's own check
    config = JudgeConfig(
        url=runtime.url,
        model=spec.model,
        api_key=runtime.api_key,
        timeout_s=runtime.timeout_s,
        retries=spec.retries,
        max_tokens=spec.max_tokens,
        concurrency=runtime.concurrency,
    )
    return Judge(config)


def verified(item: Finished) -> bool:
    """Passes the verifier, which found no tampering."""
    return item.rollout.verdict is not None and item.rollout.reward == 1.0


def passes(item: Finished) -> bool:
    """Passes the verifier and is no confirmed hack."""
    hack = item.rollout.hack
    return verified(item) and (hack is None or hack.verdict is not HackVerdict.CONFIRMED)
