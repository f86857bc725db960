"""A run, and the groups of one of its stages, as data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from mimo.pipeline.compared_run import ComparedRun, StageFacts, mlflow_place
from mimo.rollouts.find import Entry
from mimo.types import Json, Rollout


def run_data(side: ComparedRun) -> dict[str, Json]:
    """The run: how it was started and ended, its stages with their headline figures, where things are."""
    record, state = side.record, side.state
    audit = side.stages["audit"].folder if "audit" in side.stages else None
    return {
        "run": side.run.run_id,
        "status": side.status,
        "message": state.message if state else None,
        "recipe": record.recipe_file,
        "profile": record.profile,
        "overrides": list(record.overrides),
        "created": record.created,
        "starts": state.starts if state else 0,
        "last_start_s": state.ended - state.started if state and state.ended else None,
        "command": record.command,
        "folder": str(side.run.folder),
        "report": str(audit / "report.html") if audit else None,
        "gate": (side.report or {}).get("gate"),
        "mlflow": mlflow_place(side),
        "stages": [_stage(item) for item in side.stages.values()],
    }


def _stage(item: StageFacts) -> Json:
    place = item.folder or item.partial
    made = item.manifest
    return {
        "stage": item.stage,
        "what": item.what,
        "why": item.why,
        "seconds": item.seconds,
        "folder": str(place) if place else None,
        "headline": cast(Json, dict(made.headline)) if made else {},
        "counts": cast(Json, dict(made.counts)) if made else {},
        "notes": list(made.notes) if made else [],
    }


def stage_data(side: ComparedRun, item: StageFacts, entries: Iterable[Entry]) -> dict[str, Json]:
    """A stage's groups of rollouts, in the order they were written."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.store, entry.group_id), []).append(entry)
    rows: list[Json] = [
        {"group_id": group, "store": store, **_figures([entry.rollout for entry in members])}
        for (store, group), members in groups.items()
    ]
    return {"run": side.run.run_id, **cast("dict[str, Json]", _stage(item)), "groups": rows}


def _figures(rollouts: list[Rollout]) -> dict[str, Json]:
    rewards = [item.reward for item in rollouts if item.reward is not None]
    first = rollouts[0]
    return {
        "step": first.step,
        "policy": first.policy,
        "task_id": first.task_id,
        "harness": first.harness,
        "rollouts": len(rollouts),
        "passed": sum(item.verdict is not None and item.verdict.passed for item in rollouts),
        "no_verdict": sum(item.verdict is None for item in rollouts),
        "on_a_route": sum(item.hack is not None and item.hack.routes != () for item in rollouts),
        "reward_mean": sum(rewards) / len(rewards) if rewards else None,
    }
