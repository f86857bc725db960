"""The groups of the report's grader bench: accepted groups of rl-mixed's last steps, as they were judged."""

from __future__ import annotations

from pathlib import Path

from mimo.graders.bench import LENGTH_PENALTY, bench_group, link_text
from mimo.recipe.models import Recipe
from mimo.records import from_line
from mimo.rollouts.store import RolloutStore
from mimo.types import Group, Json

_SHOWN = 2


def bench_groups(folder: Path | None, recipe: Recipe) -> list[Json]:
    """At most two entries {note, group}: graded groups first, then the latest; none without such a group.

    Args:
        folder: rl-mixed's output, None if it did not run.
    """
    if folder is None:
        return []
    found = [(step, group) for step in _steps(folder)[-3:] for group in _accepted(folder, step)]
    found.sort(key=lambda one: (one[1].method != "plain", one[0]), reverse=True)
    return [_entry(folder, step, group, recipe) for step, group in found[:_SHOWN]]


def _steps(folder: Path) -> list[int]:
    return sorted(int(path.stem) for path in folder.glob("groups/*.jsonl"))


def _accepted(folder: Path, step: int) -> list[Group]:
    lines = (folder / "groups" / f"{step:06d}.jsonl").read_bytes().splitlines()
    return [group for group in (from_line(Group, line) for line in lines) if group.accepted]


def _entry(folder: Path, step: int, group: Group, recipe: Recipe) -> Json:
    members = [one for one in RolloutStore(folder).rollouts(step) if one.group_id == group.group_id]
    grading = recipe.grading
    shown = bench_group(
        members,
        group.method,
        cap=grading.gar_cap,
        below_mean=grading.gar_below_mean,
        length_penalty=recipe.rl_mixed.length_penalty.model_dump() == LENGTH_PENALTY,
        floor=grading.grs_floor,
    )
    note = f"step {step}, task {group.task_id}, graded by {group.method}"
    return {"note": note, "group": link_text(shown)}
