"""The report's bench groups are rl-mixed's accepted groups with their real numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from mimo.graders.bench import EXAMPLE, LENGTH_PENALTY, BenchGroup, BenchRollout, bench_group, link_text
from mimo.recipe.loader import load_recipe
from mimo.records import to_line
from mimo.rollouts.loop import Finished
from mimo.rollouts.store import RolloutStore
from mimo.stages.audit_bench import bench_groups
from mimo.types import Grades, Group, HackFinding, HackVerdict, Rollout, RolloutStatus, Routing, Verdict


def rollout(number: int, group: str, *, passed: bool | None, **changed: object) -> Rollout:
    facts: dict[str, object] = {
        "rollout_id": f"{group}-{number}",
        "group_id": group,
        "task_id": "task",
        "domain": "coding",
        "harness": "edit-lines",
        "policy": "p",
        "step": 1,
        "seed": number,
        "status": RolloutStatus.DONE,
        "verdict": None if passed is None else Verdict(passed=passed, tampered=False),
        "generated_tokens": 100 + number,
    }
    return Rollout(**(facts | changed))  # type: ignore[arg-type]


def grades(**scores: float) -> Grades:
    return Grades(grader="g", **scores)  # type: ignore[arg-type]


def settings(method: Routing, rollouts: list[Rollout]) -> BenchGroup:
    return bench_group(rollouts, method, cap=1.5, below_mean="keep", length_penalty=False, floor=0.1)


def test_real_numbers_become_rows() -> None:
    hack = HackFinding(verdict=HackVerdict.CONFIRMED)
    shown = settings(
        "grs",
        [
            rollout(0, "g", passed=True, grades=grades(solution=0.9, behavior=0.05)),
            rollout(1, "g", passed=None),
            rollout(2, "g", passed=True, hack=hack, generated_tokens=0),
        ],
    )
    assert shown.rollouts == [
        BenchRollout(passed=True, solution=0.9, behavior=0.1, length=100),
        BenchRollout(passed=True, leak=True, length=1),
    ]
    assert (shown.method, shown.cap, shown.below_mean) == ("grs", 1.5, "keep")


def test_plain_groups_show_as_gar_that_moves_nothing() -> None:
    shown = settings("plain", [rollout(0, "g", passed=True), rollout(1, "g", passed=False)])
    assert (shown.method, [one.quality for one in shown.rollouts]) == ("gar", [1.0, 1.0])


def write(folder: Path, step: int, groups: list[tuple[str, Routing, bool]]) -> None:
    rows = []
    for name, _, _ in groups:
        quality = {"grades": grades(quality=0.5)}
        rows += [rollout(0, name, passed=True, **quality), rollout(1, name, passed=False, **quality)]
    nothing = {"payload": None, "changes": None}
    RolloutStore(folder).write(step, [Finished(rollout=row, **nothing) for row in rows])  # type: ignore[arg-type]
    (folder / "groups").mkdir(exist_ok=True)
    records = [
        Group(
            group_id=name,
            task_id=f"task-{name}",
            step=step,
            rollout_ids=(),
            method=method,
            accepted=good,
            reason=None,
        )
        for name, method, good in groups
    ]
    (folder / "groups" / f"{step:06d}.jsonl").write_bytes(b"".join(map(to_line, records)))


def test_graded_groups_come_first_and_rejected_ones_never(tmp_path: Path) -> None:
    recipe = load_recipe(Path("pro"), profile="smoke").model
    write(tmp_path, 1, [("a", "gar", True), ("b", "plain", True)])
    write(tmp_path, 2, [("c", "plain", True), ("d", "gar", False)])
    found = bench_groups(tmp_path, recipe)
    assert [one["note"] for one in found] == [  # type: ignore[index, call-overload]
        "step 1, task task-a, graded by gar",
        "step 2, task task-c, graded by plain",
    ]
    assert found[0]["group"].endswith("r=p,0.5,,,100;f,0.5,,,101")  # type: ignore[index, call-overload, union-attr]
    assert bench_groups(None, recipe) == []
    assert bench_groups(tmp_path / "none", recipe) == []


def test_the_recipes_length_penalty_is_the_one_the_page_knows() -> None:
    recipe = load_recipe(Path("pro"), profile="smoke").model
    assert recipe.rl_mixed.length_penalty.model_dump() == LENGTH_PENALTY


def test_the_example_is_one_link() -> None:
    assert link_text(EXAMPLE).count(";") == 4
    with pytest.raises(ValueError, match="at least 2"):
        link_text(settings("gar", [rollout(0, "g", passed=True)]))
