"""Tasks that a recipe names and that are not made: for want of sight, or of a browser; counted by name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mimo.domains.visual import renderer
from mimo.errors import RecipeError
from mimo.recipe.loader import load_recipe
from mimo.recipe.models import Recipe
from mimo.stages.left_out import making_params
from mimo.stages.prepare_env import PrepareEnv
from mimo.stages.tasks import read_tasks
from tests.mimo.stages.running import Running

BLIND_STAGES = "stages=[prepare-env, probe-hacks]"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the boxes' root file system is made once."""
    return tmp_path_factory.mktemp("cache")


def recipe_of(families: list[str], *overrides: str, train: int | None = None) -> Recipe:
    source = (
        f"tasks.sources=[{{kind: generated, domain: visual, seed: 1, train: {train or len(families)}, "
        f"heldout: 0, families: [{', '.join(families)}], level: 1}}]"
    )
    return load_recipe("pro", profile="smoke", overrides=(source, "prepare_env.reruns=1", *overrides)).model


def rejects(running: Running) -> list[str]:
    lines = (running.out / "rejects.jsonl").read_text().splitlines()
    return [json.loads(line)["reason"] for line in lines]


def test_a_task_that_needs_sight_is_rejected_by_name_for_a_policy_without(
    tmp_path: Path, cache: Path
) -> None:
    recipe = recipe_of(["rings", "seen-shapes"])
    running = Running(PrepareEnv(), recipe, tmp_path / "work", cache, {})
    assert running.run().headline == {"tasks": 1.0, "tasks_rejected": 1.0}
    assert running.counted("task rejected") == 1
    assert rejects(running) == [
        "the task (visual, seen-shapes) needs sight, and the policy has none (policy.sees)"
    ]
    assert [task.family for task in read_tasks(running.out)] == ["rings"]
    assert making_params(recipe) == {}


def test_the_records_carry_the_image_for_a_policy_that_sees(tmp_path: Path, cache: Path) -> None:
    recipe = recipe_of(["seen-shapes"], "policy.sees=true", BLIND_STAGES)
    running = Running(PrepareEnv(), recipe, tmp_path / "work", cache, {})
    running.run()
    (task,) = read_tasks(running.out)
    (image,) = task.images
    assert (running.out / image).read_bytes().startswith(b"\x89PNG")
    assert making_params(recipe) == {"sees": True}


def test_no_stage_that_cannot_show_an_image_goes_with_a_policy_that_sees() -> None:
    with pytest.raises(
        RecipeError, match=r"policy.sees is true, and cold-start, .*audit give a policy token ids"
    ):
        recipe_of(["rings"], "policy.sees=true")


@pytest.fixture
def no_browser(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(renderer, "CHROMIUM", ("/usr/lib/nowhere/chromium",))
    renderer.browser.cache_clear()
    yield
    monkeypatch.undo()
    renderer.browser.cache_clear()


@pytest.mark.usefixtures("no_browser")
def test_pages_are_left_out_by_name_where_there_is_no_browser(tmp_path: Path, cache: Path) -> None:
    recipe = recipe_of(["rings", "page-columns"])
    running = Running(PrepareEnv(), recipe, tmp_path / "work", cache, {})
    assert running.run().headline == {"tasks": 1.0, "tasks_rejected": 1.0}
    assert running.counted("task rejected") == 1
    (reason,) = rejects(running)
    assert "picture.html needs Chromium, and this machine has none (Debian's package: chromium)" in reason
    assert making_params(recipe) == {"lacks": ["chromium"]}, "the same key must not hold another set"
    assert making_params(recipe_of(["rings"])) == {}
