"""A recipe's plan with what it needs: the decisions of every stage, the estimate, what this machine lacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from mimo.pipeline.decide import WORKS, Decision, State
from mimo.pipeline.estimate import Estimate, estimate, hardware_of
from mimo.pipeline.plan import Plan
from mimo.pipeline.project import Project
from mimo.recipe.machine import Machine, machine_lacks, this_machine
from mimo.types import Json


@dataclass(frozen=True, kw_only=True, slots=True)
class Forecast:
    """What `mimo plan` says. `shares`: of each stage with work, how much of it is still to do, (0, 1]."""

    project: Project
    plan: Plan
    estimate: Estimate
    shares: Mapping[str, float]
    lacks: tuple[str, ...]

    def to_do(self) -> list[str]:
        """Stages with work, and those that wait for a decision of the user."""
        stuck = {decision.stage for decision in self.plan.stuck()}
        return [name for name in self.plan.decisions if name in self.shares or name in stuck]

    def as_json(self) -> dict[str, Json]:
        """The same as JSON data; numbers are not rounded, None means unknown."""
        rows = cast("list[dict[str, Json]]", self.plan.as_json()["stages"])
        for row in rows:
            name = str(row["stage"])
            stage = self.estimate.stages.get(name)
            row["to_do"] = self.shares.get(name, 0.0)
            row["estimate"] = None if stage is None else stage.as_json()
        whole = dict.fromkeys(self.estimate.stages, 1.0)
        return {
            "schema": 1,
            "recipe": str(self.project.resolved.path),
            "profile": self.project.profile,
            "why": self.project.why,
            "policy": _policy(self.estimate),
            "rollout": {
                "tokens": self.estimate.size.tokens,
                "generated": self.estimate.size.generated,
                "turns": self.estimate.size.turns,
            },
            "hardware": self.estimate.hardware.as_json(),
            "stages": cast(Json, rows),
            "totals": {
                "seconds": self.estimate.seconds(whole),
                "usd": self.estimate.usd(whole),
                "to_do_seconds": self.estimate.seconds(self.shares),
                "to_do_usd": self.estimate.usd(self.shares),
                "disk_peak_bytes": self.estimate.disk_peak_bytes,
            },
            "lacks": list(self.lacks),
            "problems": [cast(Json, item.as_json()) for item in self.estimate.problems],
            "assumptions": [cast(Json, item.as_json()) for item in self.estimate.assumptions],
        }


def forecast(project: Project, machine: Machine | None = None) -> Forecast:
    """The forecast of an opened recipe, for `machine` (default: this one).

    Raises:
        RecipeError: a file that the recipe names cannot be read, or `runtime.plan.gpu` is not known.
    """
    machine = machine or this_machine()
    plan = project.plan()
    there = {name for name, decision in plan.decisions.items() if decision.state is State.CACHED}
    found = estimate(
        project.recipe,
        hardware_of(project.recipe, machine),
        home=project.home.root,
        waiting=plan.decisions.keys() - there,
    )
    steps = {name: stage.work.steps for name, stage in found.stages.items()}
    shares = {name: _left(plan.decisions[name], steps.get(name, 0)) for name in plan.selected}
    return Forecast(
        project=project,
        plan=plan,
        estimate=found,
        shares={name: share for name, share in shares.items() if share > 0},
        lacks=tuple(machine_lacks(project.recipe, project.profile or None, machine)),
    )


def _left(decision: Decision, steps: int) -> float:
    """How much of a stage is still to do; of a stage without steps that is gone on with, all of it."""
    if decision.state not in WORKS:
        return 0.0
    if decision.state in (State.RESUME, State.ADOPT) and decision.committed and steps:
        return max(0.0, 1.0 - decision.committed / steps)
    return 1.0


def _policy(found: Estimate) -> Json:
    facts = found.policy
    if facts is None:
        return None
    return {
        "source": facts.source,
        "known_from": facts.known_from,
        "parameters": facts.parameters,
        "active": facts.active,
        "layers": facts.layers,
        "hidden": facts.hidden,
        "vocabulary": facts.vocabulary,
    }
