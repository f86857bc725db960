"""The recipes that ship: every profile of each is valid, and Flash is Pro with another policy."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest

from mimo.pipeline.code import CodeReader
from mimo.pipeline.identity import same_but, stage_facts
from mimo.pipeline.order import Order
from mimo.recipe.layers import find_recipe, shipped_recipes
from mimo.recipe.loader import load_recipe, recipe_profiles
from mimo.recipe.schema import json_schema
from mimo.recipe.yaml_tree import parse_yaml
from mimo.types import Json

PROFILES = ("cluster", "node", "single", "laptop", "smoke")

PAPER = {
    "sampling.temperature": 1.0,
    "rl_mixed.mask": {"positive_low": 0.2, "positive_high": 5.0, "negative_low": 0.2, "negative_high": 5.0},
    "rl_mixed.aggregation": "prompt-mean",
    "rl_mixed.grad_clip": 1.0,
    "rl_mixed.length_penalty.gate": 0.5,
    "rl_mixed.token_penalty.kappa": 2.0,
    "grading.gar_cap": 1.5,
    "audit.max_hack_share": 0.02,
    "audit.gate_min_rollouts": 200,
    "rl_mixed.shares": {"coding": 0.68, "agent": 0.12, "visual": 0.13, "cyber": 0.04, "context": 0.03},
}
"""The method's values (METHOD: gates, caps, bounds, penalties, aggregation); no profile changes one."""

SIZES = ("policy.", "name", "variant", "runtime.")
"""What may differ between Pro and Flash: the policy with its sizes, the name, the runtime."""
HEALING = {"cold_start.steps", "cold_start.optimizer.learning_rate"}
"""And on the laptop, where Flash is Pro without ten layers, how long and how fast its cold start goes."""


def flat(data: Json, key: str = "") -> dict[str, Json]:
    if isinstance(data, dict) and data:
        pairs = [flat(value, f"{key}.{name}" if key else name) for name, value in data.items()]
        return {name: value for pair in pairs for name, value in pair.items()}
    return {key: data}


def value_at(data: Json, key: str) -> Json:
    for part in key.split("."):
        assert isinstance(data, dict)
        data = data[part]
    return data


def test_these_recipes_ship() -> None:
    assert shipped_recipes() == ("base", "domains", "flash", "pro")


@pytest.mark.parametrize("recipe", ["pro", "flash", "domains"])
def test_every_profile_is_valid(recipe: str) -> None:
    assert recipe_profiles(recipe) == PROFILES
    for profile in PROFILES:
        assert load_recipe(recipe, profile=profile).profile == profile


@pytest.mark.parametrize("recipe", ["pro", "flash", "domains"])
def test_editors_find_nothing_wrong_with_what_ships(recipe: str) -> None:
    text = find_recipe(Path(recipe), recipe).read_text(encoding="utf-8")
    jsonschema.validate(parse_yaml(text, recipe)[0].plain(), json_schema())


def test_editors_find_a_misspelt_key_in_a_profile() -> None:
    with pytest.raises(jsonschema.ValidationError, match="stepz"):
        jsonschema.validate({"extends": "pro", "profiles": {"a": {"rl_mixed": {"stepz": 3}}}}, json_schema())


@pytest.mark.parametrize("profile", PROFILES)
def test_pro_and_flash_differ_only_in_the_policy(profile: str) -> None:
    pro, flash = (flat(load_recipe(name, profile=profile).model.data()) for name in ("pro", "flash"))
    differing = {key for key in pro.keys() | flash.keys() if pro.get(key) != flash.get(key)}
    healing = HEALING if profile == "laptop" else set()
    assert {key for key in differing if not key.startswith(SIZES)} == healing
    assert any(key.startswith("policy.") for key in differing)


@pytest.mark.parametrize("recipe", ["pro", "flash", "domains"])
@pytest.mark.parametrize("profile", PROFILES)
def test_the_methods_values_are_the_papers_in_every_profile(recipe: str, profile: str) -> None:
    data = load_recipe(recipe, profile=profile).model.data()
    assert {key: value_at(data, key) for key in PAPER} == PAPER


@pytest.mark.parametrize("profile", PROFILES)
def test_pro_and_flash_share_their_environments(profile: str) -> None:
    """What keys are made from: equal for the environments, so one build serves both; not for a policy's."""
    pro, flash = (load_recipe(name, profile=profile).model for name in ("pro", "flash"))
    for name, shared in (("prepare-env", True), ("probe-hacks", True), ("cold-start", False)):
        stage = Order().load(name)
        equal = stage.params(pro) == stage.params(flash) and stage.horizon(pro) == stage.horizon(flash)
        assert equal == shared, name


@pytest.mark.parametrize("name", ["cold-start", "rl-mixed", "mopd2"])
def test_more_steps_are_the_same_work(name: str) -> None:
    """Only the horizon differs, so that the engine goes on from the shorter result."""
    reader, section = CodeReader(), name.replace("-", "_")
    facts = []
    for extra in ([], [f"{section}.steps=999"]):
        recipe = load_recipe("pro", profile="smoke", overrides=extra).model
        (placed,) = (placed for placed in Order().placed(recipe) if placed.name == name)
        facts.append(stage_facts(placed, recipe, reader))
    short, long = facts
    assert long.horizon != short.horizon
    assert same_but(short.identity({}), long.identity({})) == {"horizon"}


def test_flash_is_the_smaller_one() -> None:
    """On one GPU 20 layers, evenly spaced; on the laptop 20 of 30, chosen; a layer less at random."""
    for profile in ("single", "laptop"):
        pro, flash = (load_recipe(name, profile=profile).model.policy for name in ("pro", "flash"))
        assert pro.source == flash.source
        assert (pro.keep_layers, pro.drop_layers) == (None, None)
        assert (flash.keep_layers, len(flash.drop_layers or ())) in ((20, 0), (None, 10))
    pro, flash = (load_recipe(name, profile="smoke").model.policy for name in ("pro", "flash"))
    assert pro.init is not None
    assert flash.init is not None
    assert flash.init.layers < pro.init.layers


def test_real_repairs_are_held_out_and_smoke_needs_no_index() -> None:
    pairs = {
        profile: [
            (entry.package, entry.old, entry.new, entry.split)
            for entry in load_recipe("pro", profile=profile).model.tasks.sources
            if entry.kind == "pypi-pair"
        ]
        for profile in PROFILES
    }
    assert len(set(pairs["laptop"])) == 4
    assert {split for *_, split in pairs["laptop"]} == {"heldout"}
    assert pairs["cluster"] == pairs["node"] == pairs["single"] == pairs["laptop"]
    assert pairs["smoke"] == []
