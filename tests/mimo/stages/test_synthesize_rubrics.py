"""Routing by pass rate, rubrics from real attempts, flags of suspect tasks, resumable publication."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest

from mimo.domains.base import TaskStore
from mimo.errors import StageFailed
from mimo.records import from_line, to_line
from mimo.rollouts.loop import Finished
from mimo.rollouts.store import RolloutStore
from mimo.stages.base import Progress, StageContext
from mimo.stages.grade import read_rubrics
from mimo.stages.routing import route, stored_attempts
from mimo.stages.rubrics_loop import CHUNK
from mimo.stages.synthesize_rubrics import SynthesizeRubrics
from mimo.stages.task_audit import TaskFlag
from mimo.stages.tasks import tasks_of
from mimo.types import Rubric, Task
from tests.mimo.graders.endpoint import endpoint
from tests.mimo.graders.made import BASE, EDIT, LOOK, PATH, RIGHT, SUBMIT, TEST_PATH
from tests.mimo.stages.graded import NotedContext, attempt, prepared_task, smoke_recipe

WIDE = RIGHT.replace("sum(parse(text) for text in prices)", "sum(map(parse, prices))")
CARELESS = (EDIT, SUBMIT)


def _differing(task: Task) -> list[Finished]:
    return [
        attempt(task, f"{task.task_id}0"),
        attempt(task, f"{task.task_id}1", WIDE, CARELESS),
        attempt(task, f"{task.task_id}2", RIGHT, (LOOK, EDIT, SUBMIT)),
        attempt(task, f"{task.task_id}3"),
    ]


def test_a_task_mostly_solved_in_different_ways_goes_to_grs(tmp_path: Path) -> None:
    task = prepared_task(tmp_path)
    routed = route(smoke_recipe(), TaskStore(tmp_path), task, _differing(task), judge=None)
    assert (routed.task.routing, routed.task.pass_rate, routed.no_rubric) == ("grs", 1.0, None)
    assert routed.rubric is not None
    assert routed.rubric.separation == pytest.approx(5 / 6)
    assert {"b-verify", "b-evidence", "s-minimal"} <= {c.id for c in routed.rubric.criteria}
    assert routed.flags == ()


def test_the_pass_rate_decides_and_failed_boxes_do_not_count(tmp_path: Path) -> None:
    task, store, recipe = prepared_task(tmp_path), TaskStore(tmp_path), smoke_recipe()
    rows = _differing(task)
    below = [*rows[:3], attempt(task, "x", BASE, passed=False)]
    routed = route(recipe, store, task, below, judge=None)
    assert (routed.task.routing, routed.task.pass_rate, routed.rubric) == ("gar", 0.75, None)
    broken = route(recipe, store, task, [*rows[:3], attempt(task, "x", passed=None)], judge=None)
    assert (broken.task.routing, broken.task.pass_rate) == ("grs", 1.0)
    nothing = route(recipe, store, task, [attempt(task, "x", passed=None)], judge=None)
    assert (nothing.task.routing, nothing.task.pass_rate) == ("gar", None)
    none = route(recipe, store, task, [attempt(task, "x", BASE, passed=False)] * 2, judge=None)
    assert (none.task.routing, none.task.pass_rate) == ("gar", 0.0)


def test_a_task_solved_one_way_only_has_no_rubric_and_goes_to_gar(tmp_path: Path) -> None:
    task = prepared_task(tmp_path)
    twins = [attempt(task, name) for name in "abcd"]
    routed = route(smoke_recipe(), TaskStore(tmp_path), task, twins, judge=None)
    assert (routed.task.routing, routed.task.pass_rate, routed.rubric) == ("gar", 1.0, None)
    assert routed.no_rubric is not None
    assert "0 measurable criteria" in routed.no_rubric


def test_suspect_attempts_flag_their_task(tmp_path: Path) -> None:
    task = prepared_task(tmp_path)
    rows = [
        attempt(task, "right", RIGHT, passed=False),
        attempt(task, "tests", {PATH: RIGHT, TEST_PATH: ""}, refused=[TEST_PATH]),
        attempt(task, "idle", {}),
        attempt(task, "good"),
        attempt(task, "bad", BASE, passed=False),
    ]
    flags = route(smoke_recipe(), TaskStore(tmp_path), task, rows, judge=None).flags
    assert [(flag.rollout_id, flag.kind) for flag in flags] == [
        ("right", "failing-but-right"),
        ("tests", "passing-but-wrong"),
        ("idle", "passing-but-wrong"),
    ]
    assert flags[1].evidence == (f"{TEST_PATH}: changed, though protected",)


def test_a_judges_criteria_join_if_they_tell_attempts_apart(tmp_path: Path) -> None:
    task = prepared_task(tmp_path)
    row = {
        "set": "solution",
        "tier": "important",
        "weight": 0.5,
        "question": "Q?",
        "pass_anchor": "a",
        "evidence": "e",
    }

    def script(question: str, _number: int) -> object:
        if "You write a rubric" in question:
            return {"criteria": [row, {**row, "question": "Always?"}]}
        wide = "sum(map" in question
        no = {"id": "l-1", "answer": "no", "evidence": [f"{PATH}:9"]}
        yes = {"id": "l-1", "answer": "yes", "evidence": []}
        return {"answers": [no if wide else yes, {"id": "l-2", "answer": "yes", "evidence": []}]}

    with endpoint(script) as served:
        recipe = smoke_recipe(
            ["grading.judge={model: m, max_tokens: 10, retries: 0}", f"runtime.judge.url={served.url}"]
        )
        from mimo.stages.graders_view import open_judge

        routed = route(recipe, TaskStore(tmp_path), task, _differing(task), judge=open_judge(recipe))
    assert routed.rubric is not None
    assert [c.id for c in routed.rubric.criteria if c.method == "llm"] == ["l-1"]


def _published(tmp_path: Path, tasks: list[Task], rows: list[Finished]) -> NotedContext:
    prepared, out = tmp_path, tmp_path / "out"
    (prepared / "tasks.jsonl").write_bytes(b"".join(map(to_line, tasks)))
    RolloutStore(out).write(1, rows)
    return NotedContext(
        recipe=smoke_recipe(), inputs={"prepare-env": prepared}, out=out, resume=Progress(step=1, state={})
    )


def test_a_stage_with_every_attempt_made_routes_and_publishes(tmp_path: Path) -> None:
    tasks = [prepared_task(tmp_path, name) for name in ("one", "two")]
    rows = _differing(tasks[0]) + [attempt(tasks[1], f"n{n}", BASE, passed=False) for n in range(4)]
    ctx = _published(tmp_path, tasks, rows)
    result = SynthesizeRubrics().run(cast(StageContext, ctx))
    assert ctx.planned == 1
    assert result.headline["tasks_grs"] == 1
    assert result.headline["pass_rate"] == 0.5
    assert ctx.counts["task that no attempt solves"] == 1
    rubrics = read_rubrics(ctx.out)
    assert set(rubrics) == {"one"}
    assert isinstance(rubrics["one"], Rubric)
    later = NotedContext(
        recipe=ctx.recipe,
        inputs={"prepare-env": tmp_path, "synthesize-rubrics": ctx.out},
        out=tmp_path / "rl",
    )
    routed = tasks_of(cast(StageContext, later), "train")
    assert [(t.task_id, t.routing, t.pass_rate) for t in routed] == [("one", "grs", 1.0), ("two", "gar", 0.0)]


def test_attempts_come_back_from_disk_with_their_changes(tmp_path: Path) -> None:
    task = prepared_task(tmp_path)
    rows = _differing(task)
    RolloutStore(tmp_path / "out").write(1, rows)
    back = list(stored_attempts(RolloutStore(tmp_path / "out")))
    assert [(b.rollout, b.changes) for b in back] == [(r.rollout, r.changes) for r in rows]


def test_flags_are_written_for_people(tmp_path: Path) -> None:
    task = prepared_task(tmp_path)
    ctx = _published(tmp_path, [task], [attempt(task, "a"), attempt(task, "b", RIGHT, passed=False)])
    SynthesizeRubrics().run(cast(StageContext, ctx))
    lines = (ctx.out / "flags.jsonl").read_bytes().splitlines()
    assert [from_line(TaskFlag, line).kind for line in lines] == ["failing-but-right"]
    assert json.loads(lines[0])["schema"] == 1
    assert ctx.counts["attempt failing-but-right"] == 1


def test_without_one_judged_attempt_the_stage_fails(tmp_path: Path) -> None:
    task = prepared_task(tmp_path)
    ctx = _published(tmp_path, [task], [attempt(task, "a", passed=None)])
    with pytest.raises(StageFailed, match="no attempt has a verdict"):
        SynthesizeRubrics().run(cast(StageContext, ctx))


def test_chunks_are_the_units_of_the_plan(tmp_path: Path) -> None:
    tasks = [prepared_task(tmp_path, f"t{n}") for n in range(CHUNK + 1)]
    ctx = _published(tmp_path, tasks, [attempt(tasks[0], "a")])
    ctx.resume = Progress(step=2, state={})
    SynthesizeRubrics().run(cast(StageContext, ctx))
    assert ctx.planned == 2
    assert ctx.counts["task without a judged attempt"] == CHUNK
