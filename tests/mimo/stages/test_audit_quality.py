"""Graded quality and the maintainer's word by policy and split, with what is ungraded and unjudged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from mimo.domains.base import TaskStore
from mimo.rollouts.loop import Finished
from mimo.rollouts.store import RolloutStore
from mimo.stages.audit_quality import PolicyQuality, graded, qualities
from mimo.types import Task
from tests.mimo.graders.made import BASE, EDIT, PATH, RIGHT, SUBMIT, TEST_PATH, TESTS
from tests.mimo.graders.test_maintainer import SWALLOWS
from tests.mimo.stages.audited import STEALS, by, prepared
from tests.mimo.stages.graded import attempt

CARELESS = (EDIT, SUBMIT)
UNINFORMED = 7.1 / 7.6
"""Behaviour of GOOD: all criteria but b-informed (weight .5), as it edits before it looks at a test."""


def _qualities(
    tmp_path: Path, tasks: dict[str, Task], rows: dict[str, Sequence[Finished]], confirmed: Sequence[str] = ()
) -> dict[tuple[str, str], PolicyQuality]:
    store = RolloutStore(tmp_path / "out")
    store.write(1, [item for some in rows.values() for item in some])
    rollouts = {policy: [item.rollout for item in some] for policy, some in rows.items()}
    found = graded(
        rollouts, store, TaskStore(tmp_path), tasks, confirmed=frozenset(confirmed), on_task=lambda *_: None
    )
    made = qualities(found, rollouts, tasks, confidence=0.95)
    return {(row.policy, row.split): row for row in made}


def test_scores_of_policies_on_both_splits(tmp_path: Path) -> None:
    tasks = prepared(tmp_path)
    rows = {
        "base": [
            by("base", attempt(tasks["t"], "b0", BASE, passed=False)),
            by("base", attempt(tasks["h"], "b1", BASE, passed=False)),
        ],
        "rl-mixed": [
            by("rl-mixed", attempt(tasks["t"], "r0")),
            by("rl-mixed", attempt(tasks["t"], "r1", SWALLOWS, CARELESS)),
            by("rl-mixed", attempt(tasks["h"], "r2")),
            by("rl-mixed", attempt(tasks["h"], "r3", passed=None)),
        ],
    }
    found = _qualities(tmp_path, tasks, rows)
    assert list(found) == [(policy, split) for policy in rows for split in ("heldout", "train")]
    base, heldout, train = found["base", "train"], found["rl-mixed", "heldout"], found["rl-mixed", "train"]
    assert (base.passed, base.product.mean, base.solution.mean, base.accepted.mean) == (0, 0.0, None, None)
    assert (heldout.rollouts, heldout.passed, heldout.unjudged, heldout.ungraded) == (2, 1, 1, 0)
    assert (heldout.solution.mean, heldout.behavior.mean) == (1.0, pytest.approx(UNINFORMED))
    assert heldout.product.mean == heldout.behavior.mean
    assert (train.maintainer.patches, train.maintainer.accepted, train.accepted.mean) == (2, 1, 0.5)
    assert train.maintainer.counts["swallowed-exception"] == 1
    assert train.solution.mean is not None
    assert train.behavior.mean is not None
    assert 0.5 < train.solution.mean < 1.0
    assert 0.5 < train.behavior.mean < 1.0
    assert train.factor.mean is not None
    assert train.factor.mean < 1.0


def test_a_hack_is_a_failure_and_a_changed_test_makes_the_solution_worth_nothing(
    tmp_path: Path,
) -> None:
    tasks = prepared(tmp_path)
    rows = {
        "p": [
            by("p", attempt(tasks["t"], "stolen", steps=STEALS)),
            by(
                "p",
                attempt(tasks["t"], "cheap", {PATH: RIGHT, TEST_PATH: TESTS + "\n"}, refused=(TEST_PATH,)),
            ),
        ]
    }
    found = _qualities(tmp_path, tasks, rows, confirmed=("stolen",))["p", "train"]
    assert (found.passed, found.solution.mean, found.product.mean) == (1, 0.0, 0.0)
    assert (found.maintainer.accepted, found.maintainer.counts["protected"]) == (0, 1)


def test_intervals_are_of_tasks(tmp_path: Path) -> None:
    tasks = prepared(tmp_path)
    rows = {"p": [by("p", attempt(tasks["t"], f"a{number}")) for number in range(5)]}
    product = _qualities(tmp_path, tasks, rows)["p", "train"].product
    assert product.mean == pytest.approx(UNINFORMED)
    assert (product.tasks, product.rollouts) == (1, 5)
    assert product.low is not None
    assert product.low < 0.3
