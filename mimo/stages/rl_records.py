"""What one rl-mixed step leaves on disk: rollouts, payloads, changes, groups, and a few traces for MLflow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from mimo.records import to_json, to_line
from mimo.rollouts.loop import Finished
from mimo.rollouts.signal import Signal
from mimo.rollouts.store import RolloutStore
from mimo.run_dir.files import write_atomic
from mimo.stages.base import StageContext
from mimo.stages.collect import Collected
from mimo.types import Group, Json


def record_step(
    ctx: StageContext, store: RolloutStore, step: int, collected: Collected, signal: Signal | None
) -> None:
    """Write every rollout of the step, trained or not, and its groups; trace a sample."""
    groups, finished = _everything(collected, signal)
    flat = [item for row in finished for item in row]
    store.write(step, flat)
    folder = store.folder / "groups"
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / f"{step:06d}.jsonl", b"".join(map(to_line, groups)))
    for item in sampled_traces(flat, ctx.recipe.tracking.traces_per_step):
        ctx.trace(step, trace_of(item))


def trace_of(item: Finished) -> dict[str, Json]:
    """A rollout as the tracker takes it."""
    return {"rollout": cast(Json, to_json(item.rollout)), "task_id": item.rollout.task_id}


def sampled_traces(finished: Sequence[Finished], number: int) -> list[Finished]:
    """At most `number`: hacks and failures first, then the best, the worst, then whatever comes."""
    if number == 0:
        return []

    def rank(item: Finished) -> tuple[int, float]:
        rollout = item.rollout
        odd = rollout.error is not None or (rollout.hack is not None and rollout.hack.routes != ())
        return (0 if odd else 1, rollout.advantage or 0.0)

    ordered = sorted(finished, key=rank)
    if len(ordered) <= number:
        return ordered
    half = number // 2
    return ordered[: number - half] + ordered[len(ordered) - half :]


def _everything(
    collected: Collected, signal: Signal | None
) -> tuple[list[Group], list[tuple[Finished, ...]]]:
    groups = [record for record, _ in collected.rejected]
    finished = [_without_advantage(row) for _, row in collected.rejected]
    if signal is not None:
        groups += signal.groups
        finished += signal.finished
    return groups, finished


def _without_advantage(row: Sequence[Finished]) -> tuple[Finished, ...]:
    """A rejected group's rollouts carry no advantage: none was used."""
    return tuple(replace(item, rollout=replace(item.rollout, advantage=None)) for item in row)
