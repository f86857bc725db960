"""Rubrics: METHOD 3.1's mean, gates, the contrast that makes one, and no number without an answer."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mimo.graders.catalogue import BY_ID, CATALOGUE, GATES, Answer
from mimo.graders.facts import Facts
from mimo.graders.rubric import NoRubric, chosen_to_differ, score, separates, synthesize
from mimo.records import from_line, to_line
from mimo.types import Criterion, Rubric
from tests.mimo.graders.made import BASE, EDIT, GOOD, LOOK, PATH, RIGHT, SUBMIT, TEST_PATH, facts, renamed

CARELESS = (EDIT, SUBMIT)
WIDE = RIGHT.replace("sum(parse(text) for text in prices)", "sum(map(parse, prices))")
FITTED = BASE.replace("    whole, cents", '    if text == "EUR 3.50":\n        return 350\n    whole, cents')


def _rubric(*names: str, extra: tuple[Criterion, ...] = ()) -> Rubric:
    criteria = (*(BY_ID[name].criterion for name in names), *extra)
    return Rubric(task_id="t", criteria=criteria, attempts=(), separation=None)


LLM = Criterion(
    id="l-1",
    set="solution",
    tier="important",
    weight=1.0,
    method="llm",
    question="?",
    pass_anchor="a",
    evidence="e",
)


def test_the_weighted_mean() -> None:
    rubric = _rubric("s-style", "s-scope", "s-minimal", "b-verify", "b-submit")
    good, poor = score(rubric, facts()), score(rubric, facts(WIDE, steps=(LOOK, EDIT, SUBMIT)))
    assert (good.solution, good.behavior) == (1.0, 1.0)
    assert poor.solution == pytest.approx((0.5 + 1.0) / 2.0)  # minimal (0.5) fails; style 0.5, scope 1.0
    assert poor.behavior == pytest.approx(0.7 / 1.7)
    assert any(line.startswith("s-minimal: 4 changed lines") for line in poor.evidence)
    assert any(line.startswith("b-verify: turn 2") for line in poor.evidence)


def test_a_failed_gate_makes_its_set_zero() -> None:
    rubric = _rubric("s-fitted", "s-protected", "s-scope", "b-verify")
    assert score(rubric, facts(FITTED)).solution == 0.0
    gated = score(rubric, facts({PATH: RIGHT, TEST_PATH: ""}, refused=[TEST_PATH]))
    assert (gated.solution, gated.behavior, gated.gates) == (0.0, 1.0, ("s-protected",))


def test_a_missing_answer_leaves_the_rollout_ungraded() -> None:
    rubric = _rubric("s-scope", "b-verify", extra=(LLM,))
    for judged in ({}, {"l-1": None}, None):
        ungraded = score(rubric, facts(), judged)
        assert (ungraded.solution, ungraded.behavior) == (None, None)
        assert "l-1" in ungraded.evidence[-1]
    assert score(rubric, facts(), {"l-1": Answer(False, ("x",))}).solution == pytest.approx(0.5)
    unknown = replace(BY_ID["s-scope"].criterion, id="s-unknown")
    assert score(_rubric("b-verify", extra=(unknown,)), facts()).solution is None


def test_a_set_without_an_applicable_criterion_is_ungraded_not_perfect() -> None:
    assert score(_rubric("b-verify", "s-scope"), facts(steps=(LOOK, SUBMIT))).behavior is None


def test_synthesize_keeps_what_tells_the_passes_apart() -> None:
    attempts = [facts(name="a"), facts(WIDE, name="b", steps=CARELESS), facts(name="c")]
    rubric = synthesize("t", attempts, min_separating=2)
    assert isinstance(rubric, Rubric)
    names = {criterion.id for criterion in rubric.criteria}
    assert {"s-minimal", "s-functions", "b-evidence", "b-verify"} <= names
    assert {gate.criterion.id for gate in GATES} <= names
    assert "b-submit" not in names
    assert set(rubric.attempts) == {"a", "b"}  # c is a's twin
    assert rubric.separation == pytest.approx(2 / 3)
    assert from_line(Rubric, to_line(rubric)) == rubric


def test_every_chosen_criterion_separates_or_is_a_gate_or_the_sets_own() -> None:
    attempts = [facts(name="a"), facts(name="b", steps=CARELESS)]
    rubric = synthesize("t", attempts, min_separating=2)
    assert isinstance(rubric, Rubric)
    always = {"s-swallow"} | {gate.criterion.id for gate in GATES}
    assert all(c.id in always or separates(BY_ID[c.id], attempts) for c in rubric.criteria)
    scores = [score(rubric, item) for item in attempts]
    assert all(s.solution == 1.0 for s in scores)
    assert scores[0].behavior == 1.0
    assert scores[1].behavior == 0.0


def test_without_a_contrast_there_is_no_rubric() -> None:
    twins = [facts(name=name) for name in "abcd"]
    made = synthesize("t", twins, min_separating=2)
    assert isinstance(made, NoRubric)
    assert "0 measurable criteria" in made.reason
    one = [facts(name="a"), facts(WIDE, name="b", passed=False)]
    assert isinstance(synthesize("t", one, min_separating=1), NoRubric)
    assert isinstance(synthesize("t", [], min_separating=1), NoRubric)


def test_failures_are_no_part_of_the_contrast() -> None:
    passes = [facts(name="a"), facts(name="b")]
    failing = [facts(WIDE, name="c", steps=CARELESS, passed=False)]
    assert isinstance(synthesize("t", passes + failing, min_separating=1), NoRubric)


def test_too_few_separating_criteria() -> None:
    attempts = [facts(name="a"), facts(name="b", steps=(*GOOD[:-1],))]  # only b-submit differs
    few = synthesize("t", attempts, min_separating=2)
    assert isinstance(few, NoRubric)
    assert few.separating == ("b-submit",)
    assert isinstance(synthesize("t", attempts, min_separating=1), Rubric)


POOL: list[Facts] = [
    facts(name="a"),
    facts(WIDE, name="b"),
    facts(name="c", steps=CARELESS),
    facts(RIGHT.replace("* 100", "*100"), name="d"),
    facts(FITTED, name="e", steps=CARELESS),
    facts(name="f", passed=False),
]


@settings(max_examples=30, deadline=None)
@given(st.randoms(use_true_random=False))
def test_the_order_of_attempts_does_not_matter(rng: random.Random) -> None:
    shuffled = rng.sample(POOL, len(POOL))
    first, second = (synthesize("t", row, min_separating=2) for row in (POOL, shuffled))
    assert isinstance(first, Rubric)
    assert first == second


def test_attempts_are_chosen_to_differ() -> None:
    many = [renamed(POOL[0], f"x{n}") for n in range(5)] + POOL[:4]
    chosen = chosen_to_differ(many, 4)
    assert len({(item.patch, item.behavior) for item in map(_frozen, chosen)}) == 4
    assert len(chosen_to_differ(many, 100)) == 4


def _frozen(item: Facts) -> Facts:
    return replace(item, patch=repr(item.patch), behavior=repr(item.behavior))  # type: ignore[arg-type]


def test_the_catalogue_is_atomic_and_unique() -> None:
    assert len(BY_ID) == len(CATALOGUE)
    for entry in CATALOGUE:
        assert entry.criterion.weight > 0
        assert entry.criterion.question.endswith("?")
        assert (entry.criterion.set == "solution") == entry.criterion.id.startswith("s-")
        answer = entry.measure(facts())
        assert answer is None or answer.yes or entry.criterion.id == "b-informed"
