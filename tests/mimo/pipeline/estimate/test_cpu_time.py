"""CPU times against finished runs on a machine that did nothing else: each stage within 30 %.

The speeds are physical (FLOP/s, seconds a verification, …) and the same for all recipes: a 2M float32 policy
and a 135M bfloat16 one. New figures come from `benchmarks/plan_constants.py HOME`.
"""

from __future__ import annotations

import pytest

from mimo.pipeline.estimate import Estimate, estimate, hardware_of
from mimo.recipe.loader import load_recipe
from mimo.recipe.machine import Machine
from mimo.recipe.models import Recipe
from tests.mimo.pipeline.estimate.measured import RUNS

TWO_CORES = Machine(gpus=(), cores=2, memory_gib=23.5)


def made(recipe: Recipe, machine: Machine = TWO_CORES) -> Estimate:
    return estimate(recipe, hardware_of(recipe, machine))


def laptop(*overrides: str, machine: Machine = TWO_CORES) -> Estimate:
    return made(load_recipe("pro", profile="laptop", overrides=overrides).model, machine)


def seconds(found: Estimate, stage: str) -> float:
    value = found.stages[stage].seconds
    assert value is not None
    return value


@pytest.mark.parametrize(
    ("name", "stage"), [(name, stage) for name, run in RUNS.items() for stage in run.seconds]
)
def test_a_stage_is_within_30_percent(name: str, stage: str) -> None:
    assert seconds(made(RUNS[name].recipe()), stage) == pytest.approx(RUNS[name].seconds[stage], rel=0.3)


@pytest.mark.parametrize("name", RUNS)
def test_the_whole_is_within_15_percent(name: str) -> None:
    found = made(RUNS[name].recipe())
    total = sum(seconds(found, stage) for stage in found.stages)
    assert total == pytest.approx(sum(RUNS[name].seconds.values()), rel=0.15)


def test_parts_follow_the_recipe() -> None:
    """Twice the steps take twice the training; fewer layers take less; four cores halve what scales."""
    once, twice = laptop(), laptop("rl_mixed.steps=16")
    parts = [found.stages["rl-mixed"].parts or {} for found in (once, twice)]
    assert parts[1]["training"] == pytest.approx(2 * parts[0]["training"])
    assert seconds(laptop("policy.keep_layers=15"), "rl-mixed") < 0.7 * seconds(once, "rl-mixed")
    four = laptop(machine=Machine(gpus=(), cores=4, memory_gib=23.5))
    faster = (four.stages["audit"].parts or {})["sampling"]
    assert 0.45 < faster / (once.stages["audit"].parts or {})["sampling"] < 0.6


def test_stages_that_train_nothing_have_no_training() -> None:
    found = laptop()
    assert set(found.stages["prepare-env"].parts or {}) == {"start", "environments"}
    assert "training" not in (found.stages["audit"].parts or {})
    assert found.stages["prepare-env"].trainer is None
    assert found.stages["synthesize-rubrics"].trainer is None
    assert found.usd(dict.fromkeys(found.stages, 1.0)) is None
