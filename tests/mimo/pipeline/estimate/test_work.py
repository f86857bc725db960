"""The work of each stage, counted from the recipe; compared with what finished runs recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from mimo.errors import RecipeError
from mimo.pipeline.estimate import count
from mimo.pipeline.estimate.assumptions import SAMPLED_PER_ACCEPTED, Assumed
from mimo.pipeline.estimate.count import all_work
from mimo.pipeline.estimate.work import Work, rollout_size, task_counts
from mimo.recipe.loader import load_recipe
from mimo.stages import rubrics_loop
from tests.mimo.pipeline.estimate.measured import SMOKE


def work(profile: str, *overrides: str) -> dict[str, Work]:
    return dict(all_work(load_recipe("pro", profile=profile, overrides=overrides).model, Assumed()))


def measured(*overrides: str) -> dict[str, Work]:
    return dict(all_work(SMOKE.recipe(*overrides), Assumed()))


def test_the_smoke_recipe() -> None:
    """A finished run of it: 60 tasks, 96 demonstrations, 96 attempts, 420 audited rollouts of 4 policies."""
    found = measured()
    assert found["prepare-env"].environments == 60
    assert found["prepare-env"].verdicts == 60 * 2 * 2
    assert (found["probe-hacks"].probes, found["probe-hacks"].real_probes) == (60 * 2, 0)
    assert found["cold-start"].verdicts == 96
    assert found["synthesize-rubrics"].rollouts == 96
    assert found["rl-mixed"].rollouts == 8 * 8 * 8 * SAMPLED_PER_ACCEPTED.value
    assert found["rl-mixed"].steps == 8
    # 3 trained policies x (12 x 2 + 48 x 2), and the base policy once a task
    assert (found["audit"].rollouts, found["audit"].untrained_rollouts) == (360, 60)


def test_tokens_are_near_a_finished_runs() -> None:
    """Smoke: 54,031 tokens trained in rl-mixed, 49,069 in mopd2; the base policy wrote 187 a rollout."""
    found = measured()
    assert found["rl-mixed"].computed == pytest.approx(54_031, rel=0.15)
    assert found["mopd2"].computed == pytest.approx(49_069, rel=0.15)
    base = found["audit"]
    assert base.untrained_generated / base.untrained_rollouts == pytest.approx(187, rel=0.15)


def test_a_groups_opening_is_trained_once() -> None:
    one, many = measured("rl_mixed.group_size=2"), measured("rl_mixed.group_size=8")
    opening = 0.6 * 216
    assert many["rl-mixed"].computed - one["rl-mixed"].computed == pytest.approx(64 * 6 * (216 - opening))


def test_heldout_harnesses_and_left_out_stages() -> None:
    plain = work("node", "audit.heldout_harnesses=[]")["audit"].rollouts
    again = work("node", "audit.heldout_harnesses=[xml-plan]", "audit.heldout_rollouts_per_task=4")["audit"]
    heldout = task_counts(load_recipe("pro", profile="node").model)["heldout"]
    assert again.rollouts - plain == 4 * heldout * 4  # base, cold-start, rl-mixed, mopd2
    assert "cold-start" not in work("node", "cold_start=null")
    assert list(work("node", "stages=[prepare-env, rl-mixed]")) == ["prepare-env", "rl-mixed"]


def test_the_sampler_starts_once() -> None:
    assert [item.sampler_starts for item in work("laptop").values()] == [0, 0, 1, 0, 0, 0, 0]
    assert work("laptop", "cold_start=null")["synthesize-rubrics"].sampler_starts == 1


def test_chunks_are_the_stages() -> None:
    assert count._CHUNK == rubrics_loop.CHUNK


def test_real_projects_are_counted_apart() -> None:
    found = work("laptop")["prepare-env"]
    pairs = sum(
        entry.kind == "pypi-pair" for entry in load_recipe("pro", profile="laptop").model.tasks.sources
    )
    assert (found.real_verdicts, found.fetched) == (pairs * 3 * 2, pairs * 2)
    assert found.environments == 120 + pairs


def test_folders_are_counted_as_prepare_env_finds_them(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "task.toml").write_text("")
    (tmp_path / "notes").mkdir()
    source = "[{kind: folder, domain: coding, path: %s, split: train}]"
    overrides = [f"tasks.sources={source % tmp_path}"]
    assert task_counts(load_recipe("pro", profile="node", overrides=overrides).model) == {
        "train": 2,
        "heldout": 0,
    }
    gone = [f"tasks.sources={source % (tmp_path / 'gone')}"]
    with pytest.raises(RecipeError, match="does not exist"):
        task_counts(load_recipe("pro", profile="node", overrides=gone).model)


def test_what_the_recipe_says_of_rollouts_is_not_assumed() -> None:
    assumed = Assumed()
    recipe = load_recipe("pro", profile="smoke").model
    size = rollout_size(recipe, assumed)
    assert (size.tokens, size.generated) == (216, pytest.approx(0.18 * 216))
    assert "rollout/context_share" not in assumed.used
    bare = ["runtime.plan.rollout_tokens=null", "runtime.plan.generated_share=null"]
    other = rollout_size(load_recipe("pro", profile="smoke", overrides=bare).model, assumed)
    assert other.tokens == pytest.approx(0.4 * 512)
    assert {"rollout/context_share", "rollout/generated_share"} <= assumed.used.keys()
