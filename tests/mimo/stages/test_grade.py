"""Grading before the learning signal: audit first, then GRS scores or GAR qualities, all counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from mimo.domains.base import TaskStore
from mimo.graders.rubric import synthesize
from mimo.rollouts.signal import SampledGroup, learning_signal
from mimo.stages.base import StageContext
from mimo.stages.grade import Grading, unaudited
from mimo.stages.grade_metrics import redistribution_metrics
from mimo.stages.graders_view import open_judge
from mimo.stages.rl_loop import signal_rules
from mimo.types import HackFinding, HackVerdict, Rubric
from tests.mimo.graders.endpoint import endpoint
from tests.mimo.graders.made import BASE, EDIT, RIGHT, SUBMIT, facts
from tests.mimo.stages.graded import NotedContext, attempt, group, prepared_task, smoke_recipe

WIDE = RIGHT.replace("sum(parse(text) for text in prices)", "sum(map(parse, prices))")
CARELESS = (EDIT, SUBMIT)


def _clean(sampled: SampledGroup) -> list[HackFinding]:
    return [HackFinding(verdict=HackVerdict.CLEAN) for _ in sampled.finished]


def _confirms(*names: str) -> Callable[[SampledGroup], list[HackFinding]]:
    def audit(sampled: SampledGroup) -> list[HackFinding]:
        hack = HackFinding(verdict=HackVerdict.CONFIRMED, routes=("A01",), evidence=("turn 1",))
        rows = [item.rollout.rollout_id in names for item in sampled.finished]
        return [hack if hit else HackFinding(verdict=HackVerdict.CLEAN) for hit in rows]

    return audit


def _rubric() -> Rubric:
    made = synthesize("t", [facts(name="a"), facts(WIDE, name="b", steps=CARELESS)], min_separating=2)
    assert isinstance(made, Rubric)
    return made


@pytest.fixture
def noted(tmp_path: Path) -> NotedContext:
    return NotedContext(recipe=smoke_recipe(), inputs={}, out=tmp_path)


def _ctx(noted: NotedContext) -> StageContext:
    return cast(StageContext, noted)


def test_a_grs_group_gets_scores_for_its_passes(noted: NotedContext, tmp_path: Path) -> None:
    task = prepared_task(tmp_path)
    rows = [
        attempt(task, "a"),
        attempt(task, "b", WIDE, CARELESS),
        attempt(task, "c", BASE, passed=False),
        attempt(task, "d", passed=None),
    ]
    grading = Grading(_ctx(noted), TaskStore(tmp_path), {"t": _rubric()}, audit=_clean)
    graded = grading([group(task, rows, "grs")])[0]
    a, b, c, d = (item.rollout for item in graded.finished)
    assert a.grades is not None
    assert b.grades is not None
    assert (a.grades.solution, a.grades.behavior) == (1.0, 1.0)
    assert b.grades.solution is not None
    assert b.grades.solution < 1.0
    assert b.grades.behavior == 0.0
    assert b.grades.grader == "rubric:rules"
    assert b.grades.evidence
    assert (c.grades, d.grades) == (None, None)
    assert all(item.rollout.seconds.grade > 0 for item in graded.finished)
    signal = learning_signal([graded], signal_rules(noted.recipe))
    assert signal.groups[0].accepted
    assert signal.finished[0][0].rollout.reward == pytest.approx(1.0)
    numbers = grading.metrics()
    assert numbers["grs/solution_mean"] == pytest.approx((1.0 + b.grades.solution) / 2)
    assert numbers["grs/no_answer_rate"] == 0.0
    assert numbers["grs/product_spread"] == pytest.approx(1.0)
    assert numbers["hacks/clean_share"] == 1.0
    assert numbers["grs/criterion/b-verify"] == 0.5
    assert numbers["grs/criterion_std/b-verify"] == 0.5
    assert signal.metrics["grs/reward_mean"] == signal.metrics["reward/mean"]
    assert numbers["time/grade_s"] > 0
    assert grading.metrics() == {"time/grade_s": 0.0}


def test_a_grs_group_without_a_rubric_is_ungraded_and_counted(noted: NotedContext, tmp_path: Path) -> None:
    task = prepared_task(tmp_path)
    grading = Grading(_ctx(noted), TaskStore(tmp_path), {}, audit=_clean)
    graded = grading([group(task, [attempt(task, "a"), attempt(task, "b")], "grs")])[0]
    assert all(item.rollout.grades is None for item in graded.finished)
    assert noted.counts["GRS group without a rubric"] == 1
    signal = learning_signal([graded], signal_rules(noted.recipe))
    assert signal.groups[0].reason == "fewer than two graded rollouts"


def test_a_gar_group_gets_qualities_that_move_mass(noted: NotedContext, tmp_path: Path) -> None:
    task = prepared_task(tmp_path)
    rows = [
        attempt(task, "a"),
        attempt(task, "b", WIDE, CARELESS),
        attempt(task, "c", BASE, passed=False),
    ]
    grading = Grading(_ctx(noted), TaskStore(tmp_path), {}, audit=_clean)
    graded = grading([group(task, rows, "gar")])[0]
    a, b, c = (item.rollout.grades for item in graded.finished)
    assert a is not None
    assert b is not None
    assert c is None
    assert (a.quality, a.tier, a.grader) == (1.0, "T1", "ranking:rules")
    assert b.tier == "T2"
    signal = learning_signal([graded], signal_rules(noted.recipe))
    advantages = [item.rollout.advantage for item in signal.finished[0]]
    assert advantages[0] is not None
    assert advantages[1] is not None
    assert advantages[0] > advantages[1] > 0
    numbers = grading.metrics() | redistribution_metrics(signal)
    assert numbers["gar/judged"] == numbers["gar/attempted"] == numbers["gar/routed"] == 1
    assert numbers["gar/select_factor_mean"] == pytest.approx((1.0 + 0.85) / 2)
    assert numbers["gar/select_renorm_k_mean"] == pytest.approx(2 / 1.85)
    assert numbers["gar/adv_group_sum_abs_mean"] < 1e-9


@pytest.mark.parametrize(
    ("outcomes", "count"),
    [
        ((True, True), "gar/skipped_uniform"),
        ((False, False), "gar/skipped_uniform"),
        ((True, False), "gar/skipped_single"),
    ],
)
def test_groups_where_ranking_has_no_effect_are_skipped(
    outcomes: tuple[bool, ...], count: str, noted: NotedContext, tmp_path: Path
) -> None:
    task = prepared_task(tmp_path)
    rows = [attempt(task, f"r{n}", passed=passed) for n, passed in enumerate(outcomes)]
    grading = Grading(_ctx(noted), TaskStore(tmp_path), {}, audit=_clean)
    graded = grading([group(task, rows, "gar")])[0]
    assert all(item.rollout.grades is None for item in graded.finished)
    numbers = grading.metrics()
    assert numbers[count] == 1
    assert "gar/attempted" not in numbers


def test_a_confirmed_hack_is_no_pass_for_any_grader(noted: NotedContext, tmp_path: Path) -> None:
    task = prepared_task(tmp_path)
    rows = [attempt(task, "a"), attempt(task, "b", WIDE, CARELESS), attempt(task, "c")]
    grading = Grading(_ctx(noted), TaskStore(tmp_path), {}, audit=_confirms("c"))
    graded = grading([group(task, rows, "gar")])[0]
    assert graded.finished[2].rollout.grades is None
    assert graded.finished[0].rollout.grades is not None
    assert noted.counts["hack audit: confirmed"] == 1
    numbers = grading.metrics()
    assert numbers["hacks/confirmed_share"] == pytest.approx(1 / 3)
    assert numbers["hacks/route/A01"] == 1
    assert numbers["hacks/groups_became_mixed"] == 1
    signal = learning_signal([graded], signal_rules(noted.recipe))
    assert signal.finished[0][2].rollout.reward == 0.0


def test_unaudited_rollouts_are_counted(noted: NotedContext, tmp_path: Path) -> None:
    task = prepared_task(tmp_path)
    grading = Grading(_ctx(noted), TaskStore(tmp_path), {}, audit=unaudited)
    grading([group(task, [attempt(task, "a"), attempt(task, "b")], "plain")])
    assert noted.counts["hack audit: unaudited"] == 2
    assert grading.metrics()["hacks/unaudited_share"] == 1.0


def test_a_judge_that_gives_nothing_leaves_the_group_its_advantages(
    noted: NotedContext, tmp_path: Path
) -> None:
    task = prepared_task(tmp_path)
    rows = [attempt(task, "a"), attempt(task, "b", WIDE), attempt(task, "c", BASE, passed=False)]
    with endpoint(lambda _prompt, _n: "I would rank the first one first.") as served:
        recipe = smoke_recipe(
            ["grading.judge={model: m, max_tokens: 10, retries: 1}", f"runtime.judge.url={served.url}"]
        )
        judge = open_judge(recipe)
        assert judge is not None
        grading = Grading(_ctx(noted), TaskStore(tmp_path), {}, audit=_clean, judge=judge)
        graded = grading([group(task, rows, "gar")])[0]
    assert all(item.rollout.grades is None for item in graded.finished)
    assert noted.counts["GAR group not judged"] == 1
    numbers = grading.metrics()
    assert numbers["gar/failed"] == 1
    assert numbers["judge/failures/malformed"] == 4
    signal = learning_signal([graded], signal_rules(noted.recipe))
    advantages = [item.rollout.advantage for item in signal.finished[0]]
    assert advantages == pytest.approx([1 / 3, 1 / 3, -2 / 3])
