"""`mimo eval`: what runs, with which policy and tasks; a run of its own that shares task sets and resumes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mimo.errors import RecipeError
from mimo.pipeline.evaluation import open_evaluation
from mimo.rollouts.store import RolloutStore
from mimo.run_dir.runs import list_runs
from mimo.stages.audit_conclusion import conclude
from mimo.stages.audit_sources import sources
from mimo.types import Json
from tests.mimo.pipeline.conftest import Bench
from tests.mimo.stages.audited import audit_context, by, prepared
from tests.mimo.stages.graded import attempt


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "step-000008"
    (folder / "model").mkdir(parents=True)
    (folder / "model" / "config.json").write_text("{}")
    return folder


def environ(bench: Bench) -> dict[str, str]:
    return {"MIMO_HOME": str(bench.home.root)}


def test_the_recipe_s_tasks_and_the_checkpoint_alone(bench: Bench, checkpoint: Path) -> None:
    sets = ("audit.heldout_rollouts_per_task=5",)
    made = open_evaluation(checkpoint, bench.recipe, profile="smoke", overrides=sets, environ=environ(bench))
    recipe, usual = made.recipe, bench.project().recipe
    assert recipe.policy.source == f"path:{checkpoint / 'model'}"
    assert (recipe.policy.init, recipe.policy.tokenizer, recipe.policy.keep_layers) == (None, None, None)
    assert recipe.policy.context_tokens == usual.policy.context_tokens
    assert recipe.stages == ("prepare-env", "probe-hacks", "audit")
    assert recipe.tasks == usual.tasks
    assert recipe.audit.base_rollouts_per_task == 5
    assert made.home == bench.home
    again = open_evaluation(checkpoint / "model", bench.recipe, profile="smoke", environ=environ(bench))
    assert again.resolved.path == made.resolved.path


def test_a_folder_of_tasks(bench: Bench, checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "tasks" / "one").mkdir(parents=True)
    made = open_evaluation(checkpoint, tmp_path / "tasks", profile="smoke", environ=environ(bench))
    (source,) = made.recipe.tasks.sources
    assert source.kind == "folder"
    assert (source.path, source.split) == (str(tmp_path / "tasks"), "heldout")


def test_no_model_is_one_clear_error(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"nothing: no config\.json"):
        open_evaluation(tmp_path / "nothing", bench.recipe, environ=environ(bench))
    assert not (bench.home.root / "eval").exists()


@pytest.mark.slow
def test_it_is_a_run_of_its_own(bench: Bench, checkpoint: Path) -> None:
    assert bench.run(until="prepare-env").error is None
    words = ("eval", str(checkpoint), str(bench.recipe), "--profile", "smoke")
    planned = bench.call(*words, "--dry-run")
    assert planned.returncode == 0, planned.stderr
    ran = bench.call(*words)
    assert ran.returncode == 0, ran.stderr
    rows = {line.split()[0]: line.split()[1] for line in ran.stdout.splitlines() if len(line.split()) > 1}
    assert (rows["prepare-env"], rows["rl-mixed"], rows["audit"]) == ("reused", "skipped", "ran")
    newest, own = list_runs(bench.home)
    assert own.run_id in [run.run_id for run in bench.project().runs()]
    assert newest.run_id not in [run.run_id for run in bench.project().runs()]
    again = bench.call(*words, "--json")
    assert json.loads(again.stdout.splitlines()[-1])["event"] == "report"
    assert len(list_runs(bench.home)) == 2


def test_an_audit_concludes_with_the_checkpoint_alone(tmp_path: Path) -> None:
    """What the audit makes of a run without a training stage."""
    tasks = prepared(tmp_path / "tasks")
    ctx = audit_context(tmp_path, {"prepare-env": tmp_path / "tasks"})
    rows = [by("base", attempt(tasks["t"], "b0")), by("base", attempt(tasks["h"], "b1"))]
    RolloutStore(ctx.out).write(1, rows)
    rates: dict[str, Json] = {"base": {"split": {}, "family": {}}}
    result = conclude(ctx, {"base": [item.rollout for item in rows]}, sources(ctx), rates)
    assert result.refusal is None
    assert result.headline["graded/heldout/base"] > 0.9
    report = json.loads((ctx.out / "report.json").read_text())
    (row,) = report["hacks"]["counts"]
    assert (row["stage"], row["policy"], row["verdicts"]) == ("audit", "base", {"clean": 2})
