"""The catalogue of measurable criteria: atomic yes/no questions that facts of a rollout answer.

A critical criterion with method `rule` is a gate: one that fails makes its set's score 0. Questions are
worded so that yes is good; an answer of None means the facts do not apply (nothing was edited, no reference).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from mimo.graders.facts import Facts
from mimo.graders.patch import Finding
from mimo.types import Criterion


@dataclass(frozen=True, slots=True)
class Answer:
    """Yes or no, and what shows it (empty for a plain yes)."""

    yes: bool
    evidence: tuple[str, ...] = ()


Measure = Callable[[Facts], Answer | None]


@dataclass(frozen=True, slots=True)
class Measurable:
    """A criterion and the function that answers it."""

    criterion: Criterion
    measure: Measure


def _entry(
    name: str, tier: Literal["critical", "important"], weight: float, question: str, measure: Measure
) -> Measurable:
    kind: Literal["solution", "behavior"] = "solution" if name.startswith("s-") else "behavior"
    return Measurable(
        Criterion(
            id=name,
            set=kind,
            tier=tier,
            weight=weight,
            method="rule",
            question=question,
            pass_anchor="program analysis finds nothing against it",
            evidence="file and line of the patch" if kind == "solution" else "number of the turn",
        ),
        measure,
    )


def _clean_of(*checks: str, what: str | None = None) -> Measure:
    """Yes where the patch adds none of these findings."""

    def measure(facts: Facts) -> Answer:
        found = [f for f in facts.patch.of(*checks) if what is None or f.what.startswith(what)]
        return Answer(not found, _shown(found))

    return measure


def _shown(findings: list[Finding]) -> tuple[str, ...]:
    return tuple(str(finding) for finding in findings[:5])


def _readable(facts: Facts) -> Answer:
    return Answer(not facts.patch.unreadable, tuple(f"{p}: not readable" for p in facts.patch.unreadable[:5]))


def _tests_untouched(facts: Facts) -> Answer:
    paths = facts.patch.protected[:5]
    return Answer(not paths, tuple(f"{path}: changed, though protected" for path in paths))


def _related_files(facts: Facts) -> Answer:
    paths = facts.patch.unrelated[:5]
    return Answer(not paths, tuple(f"{path}: not part of the task" for path in paths))


def _within(factor: float, slack: int) -> Measure:
    def measure(facts: Facts) -> Answer | None:
        patch = facts.patch
        if patch.reference_lines is None:
            return None
        bound = max(int(factor * patch.reference_lines), patch.reference_lines + slack)
        shown = f"{patch.lines} changed lines, the reference needs {patch.reference_lines}"
        return Answer(patch.lines <= bound, () if patch.lines <= bound else (shown,))

    return measure


def _functions(facts: Facts) -> Answer | None:
    if facts.patch.reference_lines is None:
        return None
    names = facts.patch.foreign_functions[:5]
    return Answer(not names, tuple(f"{name}: changed, not part of the repair" for name in names))


def _no_churn(facts: Facts) -> Answer:
    number = facts.patch.cosmetic_lines
    return Answer(number == 0, (f"{number} changed lines of comments or layout",) if number else ())


def _none_of(name: str, what: str) -> Measure:
    """Yes where no turn is listed under `name` in the behaviour's places."""

    def measure(facts: Facts) -> Answer | None:
        if facts.behavior.turns == 0:
            return None
        turns = facts.behavior.places.get(name, ())
        return Answer(not turns, tuple(f"turn {number}: {what}" for number in turns[:5]))

    return measure


def _verifies(facts: Facts) -> Answer | None:
    tested = facts.behavior.tested_after_edit
    if tested is None:
        return None
    last = facts.behavior.places["edits"][-1]
    return Answer(tested, () if tested else (f"turn {last}: the last edit; no test run after it",))


def _sees_green(facts: Facts) -> Answer | None:
    """Whether a run after the last edit showed that the visible tests pass."""
    behavior = facts.behavior
    if behavior.tested_after_edit is None:
        return None
    green = behavior.last_test_passed is True
    last = behavior.places.get("tests", behavior.places["edits"])[-1]
    return Answer(green, () if green else (f"turn {last}: no passing test run from here on",))


def _informed(facts: Facts) -> Answer | None:
    """Whether the visible tests were read or run before the first edit."""
    seen = facts.behavior.tests_seen_before_edit
    if seen is None:
        return None
    first = facts.behavior.places["edits"][0]
    return Answer(
        seen, () if seen else (f"turn {first}: the first edit; the tests were not looked at before",)
    )


def _submits(facts: Facts) -> Answer:
    done = facts.behavior.submitted
    return Answer(done, () if done else (f"turn {facts.behavior.turns}: ends without handing in",))


CATALOGUE: tuple[Measurable, ...] = (
    _entry("s-readable", "critical", 1.0, "Does every changed file still parse?", _readable),
    _entry("s-fitted", "critical", 1.0, "Is it free of the tests' own values?", _clean_of("fitted")),
    _entry("s-protected", "critical", 1.0, "Does it leave the tests alone?", _tests_untouched),
    _entry("s-files", "important", 1.0, "Does it change only files of the task?", _related_files),
    _entry("s-functions", "important", 0.7, "Does it change only the functions at fault?", _functions),
    _entry("s-scope", "important", 1.0, "Is it at most twice the needed size?", _within(2.0, 2)),
    _entry("s-minimal", "important", 0.5, "Is it no larger than needed?", _within(1.0, 0)),
    _entry(
        "s-swallow", "important", 1.0, "Does no new handler hide errors?", _clean_of("swallowed-exception")
    ),
    _entry("s-validation", "important", 1.0, "Are all checks still made?", _clean_of("relaxed-validation")),
    _entry("s-compat", "important", 0.7, "Is it free of speculative branches?", _clean_of("compatibility")),
    _entry("s-exports", "important", 0.7, "Does it export nothing more?", _clean_of("broad-export")),
    _entry(
        "s-evaluation", "important", 1.0, "Does it leave evaluation settings alone?", _clean_of("evaluation")
    ),
    _entry("s-churn", "important", 0.5, "Is it free of comment and layout churn?", _no_churn),
    _entry("s-style", "important", 0.5, "Is it written in the file's own style?", _clean_of("style")),
    _entry("s-leftover", "important", 0.5, "Is nothing left over?", _clean_of("leftover")),
    _entry("s-plain", "important", 0.3, "Is it free of redundant constructs?", _clean_of("redundant")),
    _entry(
        "b-evidence",
        "important",
        1.0,
        "Was a file seen before it was edited?",
        _none_of("blind_edits", "blind"),
    ),
    _entry("b-verify", "important", 1.0, "Were the tests run after the last edit?", _verifies),
    _entry("b-green", "important", 0.7, "Was the result seen to pass the visible tests?", _sees_green),
    _entry("b-informed", "important", 0.5, "Were the tests looked at before the first edit?", _informed),
    _entry(
        "b-wellformed", "important", 1.0, "Is every turn well formed?", _none_of("malformed", "malformed")
    ),
    _entry(
        "b-effect", "important", 0.7, "Did every edit take effect?", _none_of("failed_edits", "no effect")
    ),
    _entry(
        "b-once", "important", 0.5, "Was no place edited twice?", _none_of("repeated_edits", "edited again")
    ),
    _entry("b-loop", "important", 0.5, "Was no action repeated?", _none_of("repeated_actions", "repeated")),
    _entry(
        "b-stays",
        "important",
        1.0,
        "Were only the task's files edited?",
        _none_of("unrelated_edits", "other"),
    ),
    _entry("b-submit", "important", 0.7, "Was the work handed in?", _submits),
)
"""Ids and meanings are part of a rubric's record: a changed meaning needs a new id."""

BY_ID = {entry.criterion.id: entry for entry in CATALOGUE}
GATES = tuple(entry for entry in CATALOGUE if entry.criterion.tier == "critical")
