"""The stages of a run in order: each decided again when its inputs are there, then reused or executed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from mimo.errors import GateRefused, Interrupted, MimoError, RecipeError, StoppedSafely
from mimo.pipeline.decide import WORKS, Decision, State, decide
from mimo.pipeline.execute import execute_stage
from mimo.pipeline.identity import StageFacts
from mimo.pipeline.plan import Plan
from mimo.pipeline.prepare import leave_out
from mimo.pipeline.project import Project
from mimo.pipeline.report import Outcome, Report, What
from mimo.pipeline.session import Session
from mimo.run_dir.attempt import Work
from mimo.run_dir.outputs import Published
from mimo.types import Json


def run_stages(session: Session, plan: Plan, report: Report) -> None:
    """Go through the plan; every stage gets an outcome in `report`, also those not reached.

    Raises:
        MimoError: what ended the run early.
    """
    done: dict[str, Published] = {}
    names = list(plan.facts)
    try:
        for name in names:
            report.outcomes.append(_one(session, plan, name, done, report))
            refused = refusal(report.outcomes[-1])
            if refused is not None:
                session.event(name, "refused", {"message": refused.message})
                raise refused
    finally:
        for name in names[len(report.outcomes) :]:
            report.outcomes.append(Outcome(stage=name, what="left", why="not reached"))


def settled(decision: Decision) -> Outcome:
    """The outcome of a stage that needs no process: reused, skipped or left."""
    manifest = decision.output.manifest if decision.output else None
    if decision.state is State.CACHED:
        return Outcome(stage=decision.stage, what="reused", why=decision.reason, manifest=manifest)
    skipped = decision.state in (State.SKIPPED, State.NOT_BUILT)
    return Outcome(stage=decision.stage, what="skipped" if skipped else "left", why=decision.reason)


def refusal(outcome: Outcome) -> GateRefused | None:
    """The no of a gate that is part of the stage's published output, made now or before."""
    manifest = outcome.manifest
    if outcome.what not in ("ran", "reused") or manifest is None or manifest.refusal is None:
        return None
    said = manifest.refusal
    return GateRefused(f"{outcome.stage}: {said['message']}", hint=said["hint"])


def refuse_stuck(project: Project, decisions: list[Decision]) -> None:
    """RecipeError when a selected stage needs a decision of the user, or an input that is not there."""
    for decision in decisions:
        if decision.state is State.STALE_CODE:
            raise RecipeError(
                f"{decision.stage}: {decision.reason}; a result that took long is not thrown away unasked",
                hint=f"`{project.accept_command(decision.stage)}` keeps it; "
                f"`{project.run_command('--from', decision.stage)}` makes it anew",
            )
    for decision in decisions:
        if decision.state is State.BLOCKED:
            missing = decision.reason.split(" is not done")[0]
            raise RecipeError(
                f"{decision.stage} cannot run: {decision.reason}",
                hint=f"`{project.run_command('--until', missing)}` makes what is missing",
            )


def _one(session: Session, plan: Plan, name: str, done: dict[str, Published], report: Report) -> Outcome:
    facts = plan.facts[name]
    planned = plan.decisions[name]
    if planned.state in (State.SKIPPED, State.NOT_BUILT):
        session.event(name, "skipped", {"state": str(planned.state), "reason": planned.reason})
        return settled(planned)
    if name not in plan.selected:
        if planned.state is State.CACHED and planned.output is not None:
            done[name] = planned.output
        return Outcome(stage=name, what="left", why="not selected")
    if session.stop.level:
        raise session.stop.error("stopped between two stages")
    decision, facts = _decide_now(session, plan, facts, done)
    refuse_stuck(session.project, [decision])
    if decision.state is State.CACHED and decision.output is not None:
        done[name] = decision.output
        if plan.wishes[name].fresh:
            leave_out(session.home, name, decision)
        return _reuse(session, decision, decision.output)
    assert decision.state in WORKS
    return _execute(session, plan, facts, decision, done=done, report=report)


def _decide_now(
    session: Session, plan: Plan, facts: StageFacts, done: Mapping[str, Published]
) -> tuple[Decision, StageFacts]:
    """The decision with every input there, for the code as it is at this moment."""
    code = session.project.reader.facts(facts.target.partition(":")[0])
    if code != facts.code:
        session.event(facts.name, "code-changed", {"since": "the plan of this run was made"})
        facts = replace(facts, code=code)
    inputs = {name: item.manifest.digest for name, item in done.items() if name in facts.reads}
    return decide(session.home, facts, inputs, plan.wishes[facts.name]), facts


def _reuse(session: Session, decision: Decision, output: Published) -> Outcome:
    manifest = output.manifest
    session.uses(decision.stage, manifest.key)
    about: dict[str, Json] = {"key": manifest.key[:16], "from": manifest.run, "reason": decision.reason}
    session.event(decision.stage, "reused", about)
    session.tracker.reused_stage(decision.stage, manifest.run, manifest.key[:16], manifest.headline)
    return settled(decision)


def _execute(
    session: Session,
    plan: Plan,
    facts: StageFacts,
    decision: Decision,
    *,
    done: dict[str, Published],
    report: Report,
) -> Outcome:
    started = time.monotonic()
    session.event(facts.name, "decided", {"state": str(decision.state), "reason": decision.reason})
    session.run.update_state(stage=facts.name)
    inputs = {name: item for name, item in done.items() if name in facts.reads}
    wish = plan.wishes[facts.name]
    try:
        output = execute_stage(session, facts, decision, inputs, fresh=wish.fresh or wish.force)
    except MimoError as error:
        stopped = isinstance(error, (StoppedSafely, Interrupted))
        what: What = "stopped" if stopped else "failed"
        seconds = time.monotonic() - started
        counts = _committed_counts(session, decision)
        report.outcomes.append(
            Outcome(stage=facts.name, what=what, why=error.message, seconds=seconds, counts=counts)
        )
        raise
    done[facts.name] = output
    session.uses(facts.name, output.manifest.key)
    return Outcome(
        stage=facts.name,
        what="ran",
        why=decision.reason,
        seconds=time.monotonic() - started,
        manifest=output.manifest,
    )


def _committed_counts(session: Session, decision: Decision) -> dict[str, Json]:
    assert decision.work_key
    committed = Work(session.home.work(decision.stage, decision.work_key)).committed()
    return {} if committed is None else committed.counts
