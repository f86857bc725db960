"""Why a stage is up to date or not: recorded inputs against the wanted ones, root cause first."""

from __future__ import annotations

from dataclasses import dataclass

from mimo.pipeline.decide import Decision, State, nearest_manifest
from mimo.pipeline.identity import differences
from mimo.pipeline.plan import Plan, active_inputs
from mimo.pipeline.project import Project
from mimo.types import Json


@dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """One stage on the way to the answer: its state, the lines that differ, and from which earlier result."""

    stage: str
    state: str
    reason: str
    lines: tuple[str, ...]
    against: str | None

    def as_json(self) -> dict[str, Json]:
        """The cause as data."""
        return {
            "stage": self.stage,
            "state": self.state,
            "reason": self.reason,
            "differences": list(self.lines),
            "against_run": self.against,
        }


def explain(project: Project, stage: str) -> list[Cause]:
    """The stage's causes, the root first: stages it waits for, then the stage itself.

    Raises:
        RecipeError: no such stage.
    """
    project.order.load(stage)
    plan = project.plan()
    causes: list[Cause] = []
    _collect(project, plan, stage, causes)
    return causes


def _collect(project: Project, plan: Plan, stage: str, causes: list[Cause]) -> None:
    """Adds the causes of `stage` after those of the inputs that are not there."""
    if any(cause.stage == stage for cause in causes):
        return
    waiting = [
        name for name in active_inputs(plan.facts[stage], plan.facts) if not _there(plan.decisions[name])
    ]
    for name in waiting:
        _collect(project, plan, name, causes)
    causes.append(_cause(project, plan, stage, waiting))


def _cause(project: Project, plan: Plan, stage: str, waiting: list[str]) -> Cause:
    decision, facts = plan.decisions[stage], plan.facts[stage]
    if decision.state in (State.SKIPPED, State.NOT_BUILT):
        return Cause(stage=stage, state=str(decision.state), reason=decision.reason, lines=(), against=None)
    digests = {}
    for name in active_inputs(facts, plan.facts):
        output = plan.decisions[name].output
        if output is not None:
            digests[name] = output.manifest.digest
    identity = facts.identity(digests)
    older = nearest_manifest(project.home, stage, identity)
    lines: list[str] = []
    if older is not None:
        lines = [
            line
            for line in differences(older.manifest.identity, identity)
            if not any(line.startswith(f"input {name} ") for name in waiting)
        ]
    lines += [f"input {name} is to be made: {plan.decisions[name].reason}" for name in waiting]
    return Cause(
        stage=stage,
        state=str(decision.state),
        reason=decision.reason,
        lines=tuple(lines),
        against=older.manifest.run if older else None,
    )


def _there(decision: Decision) -> bool:
    return decision.state is State.CACHED
