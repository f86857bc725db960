"""A group of rollouts, and one rollout with its tokens, task and changes, as data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from mimo.errors import RecipeError
from mimo.pipeline.compared_run import ComparedRun
from mimo.records import from_line, to_json
from mimo.rollouts.find import Entry
from mimo.run_dir.files import read_lines
from mimo.types import Context, HackVerdict, Json, Rollout, Task

if TYPE_CHECKING:
    from mimo.rollouts.token_log import Payload

_TASK_STAGES = ("synthesize-rubrics", "probe-hacks", "prepare-env")
_SNAPSHOTS = ("probe-hacks", "prepare-env")
_HEAVY = ("contexts", "schema")


def group_data(side: ComparedRun, members: list[Entry]) -> dict[str, Json]:
    """The group's record (None where its stage keeps none) and its rollouts without their turns."""
    first = members[0]
    task = _task(side, first.rollout.task_id)
    return {
        "run": side.run.run_id,
        "stage": first.stage,
        "folder": str(first.folder),
        "group_id": first.group_id,
        "group": cast(Json, _group_record(first)),
        "task": cast(Json, _about_task(first.rollout.task_id, task)),
        "rollouts": [
            {key: value for key, value in to_json(entry.rollout).items() if key not in _HEAVY}
            for entry in members
        ],
    }


def rollout_data(side: ComparedRun, entry: Entry) -> dict[str, Json]:
    """The rollout's record; its group, task, tokens by turn, changes as a diff, and what must be known.

    Raises:
        RecipeError: the record or its tokens cannot be read.
    """
    rollout = entry.rollout
    task = _task(side, rollout.task_id)
    group = _group_record(entry)
    return {
        "run": side.run.run_id,
        "stage": entry.stage,
        "folder": str(entry.folder),
        "rollout": cast(Json, to_json(rollout)),
        "group": cast(Json, group),
        "task": cast(Json, _about_task(rollout.task_id, task)),
        "tokens": cast(Json, _tokens(entry, rollout)),
        "diff": _diff(side, entry, rollout, task),
        "notes": list(_notes(rollout, group)),
    }


def _group_record(entry: Entry) -> dict[str, Json] | None:
    """The record of the entry's group, where the stage keeps one (rl-mixed)."""
    rows = read_lines(entry.folder / "groups" / f"{entry.step:06d}.jsonl")
    return next((row for row in rows if row.get("group_id") == entry.group_id), None)


def _task(side: ComparedRun, task_id: str) -> Task | None:
    """The task as the newest stage of the run that lists it wrote it down."""
    wanted = f'"task_id":"{task_id}"'.encode()
    for stage in _TASK_STAGES:
        folder = side.stages[stage].folder if stage in side.stages else None
        path = folder / "tasks.jsonl" if folder else None
        if path is None or not path.is_file():
            continue
        with open(path, "rb") as lines:
            for line in lines:
                if wanted in line and (task := _read_task(line)).task_id == task_id:
                    return task
    return None


def _read_task(line: bytes) -> Task:
    try:
        return from_line(Task, line)
    except ValueError as error:
        raise RecipeError(str(error)) from error


def _about_task(task_id: str, task: Task | None) -> dict[str, Json]:
    if task is None:
        return {"task_id": task_id}
    return {
        "task_id": task_id,
        "domain": task.domain,
        "family": task.family,
        "split": task.split,
        "source": f"{task.source.kind} {task.source.name}",
        "routing": task.routing,
        "pass_rate": task.pass_rate,
        "fail_to_pass": list(task.verifier.fail_to_pass),
    }


def _tokens(entry: Entry, rollout: Rollout) -> list[list[dict[str, Json]]] | None:
    """For every turn of every context {tokens, trained, masked}; None where no tokens were kept.

    `trained` are those in the loss, `masked` those of an assistant turn that are not.
    """
    from safetensors import SafetensorError  # here: both load numpy

    from mimo.rollouts.store import RolloutStore

    if not rollout.contexts:
        return None
    try:
        kept = RolloutStore(entry.folder).contexts(entry.step).get(rollout.rollout_id)
    except FileNotFoundError:
        return None
    except (OSError, KeyError, SafetensorError) as error:
        raise RecipeError(f"{entry.folder}: tokens of step {entry.step} cannot be read: {error}") from error
    if kept is None or len(kept) != len(rollout.contexts):
        return None
    return [_turns(context, payload) for context, payload in zip(rollout.contexts, kept, strict=True)]


def _turns(context: Context, payload: Payload) -> list[dict[str, Json]]:
    rows: list[dict[str, Json]] = []
    for turn in context.turns:
        start, end = turn.span
        trained = int(payload.loss_mask[start:end].sum())
        own = turn.role == "assistant"
        rows.append(
            {"tokens": end - start, "trained": trained, "masked": end - start - trained if own else 0}
        )
    return rows


def _diff(side: ComparedRun, entry: Entry, rollout: Rollout, task: Task | None) -> str | None:
    """What the rollout changed against the files it began with; None where that cannot be told."""
    from mimo.graders.ground import read_base
    from mimo.rollouts.changes import read_changes, unified_diff

    if rollout.diff is None:
        return None
    try:
        changes = read_changes(entry.folder / "diffs", rollout.diff)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise RecipeError(str(error)) from error
    base: dict[str, bytes] = {}
    for stage in _SNAPSHOTS if task else ():
        assert task is not None
        folder = side.stages[stage].folder if stage in side.stages else None
        snapshot = folder / "snapshots" / task.environment.snapshot if folder else None
        if snapshot is not None and snapshot.is_dir():
            found = ((change.path, read_base(snapshot, change.path)) for change in changes.files)
            base = {path: data for path, data in found if data is not None}
            break
    return unified_diff(changes, base)


def _notes(rollout: Rollout, group: dict[str, Json] | None) -> Iterator[str]:
    if rollout.verdict is None:
        yield f"no verdict, so no reward: the rollout ended as {rollout.status}"
    if group is not None and not group.get("accepted"):
        yield f"its group was not trained on: {group.get('reason') or 'rejected'}"
    if rollout.hack is not None and rollout.hack.verdict is HackVerdict.CONFIRMED and rollout.reward == 0:
        yield "a confirmed hack: its reward was set to 0 before the group's statistics"
