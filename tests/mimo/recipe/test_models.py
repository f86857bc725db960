"""The models hold types and limits; base.yaml holds every value."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel, ValidationError

from mimo.errors import RecipeError
from mimo.recipe.layers import find_recipe
from mimo.recipe.loader import load_recipe
from mimo.recipe.models import BOOKKEEPING, STAGE_NAMES, Recipe
from mimo.recipe.schema import all_keys, fields_of, json_schema, models_in
from mimo.stages.prepare_env import PrepareEnv
from mimo.stages.probe_hacks import ProbeHacks
from mimo.types import Json


def _models(model: type[BaseModel]) -> list[type[BaseModel]]:
    below = [each for info in model.model_fields.values() for each in models_in(info.annotation)]
    return [model, *(found for each in below for found in _models(each))]


def test_no_key_of_the_method_has_a_default() -> None:
    optional = {
        (model.__name__, name)
        for model in _models(Recipe)
        for name, info in fields_of(model).items()
        if not info.is_required()
    }
    assert optional == {
        ("GeneratedSource", "families"),
        ("GeneratedSource", "level"),
        ("PypiPairSource", "license"),
    }


def test_every_key_is_documented() -> None:
    assert [key.dotted for key in all_keys() if not key.meaning] == []


def test_every_model_is_frozen_and_refuses_unknown_keys() -> None:
    for model in _models(Recipe):
        assert model.model_config["frozen"] is True
        assert model.model_config["extra"] == "forbid"


def test_base_mentions_every_key() -> None:
    """A key whose value is null or an empty list in base.yaml stands for the keys below it."""
    base = yaml.safe_load(find_recipe(Path("base"), "base").read_text())
    missing = []
    for key in all_keys():
        node: object = base
        for part in re.sub(r"<.*?>|\[\]", "", key.dotted).split("."):
            if node in (None, []):
                break
            if not isinstance(node, dict) or part not in node:
                missing.append(key.dotted)
                break
            node = node[part]
    assert missing == []


def test_semantic_leaves_out_only_bookkeeping() -> None:
    recipe = load_recipe("pro", profile="smoke").model
    assert set(recipe.semantic()) == set(recipe.data()) - set(BOOKKEEPING)
    assert "runtime" not in recipe.semantic()


def test_runtime_and_tracking_never_change_what_a_result_is() -> None:
    plain = load_recipe("pro", profile="smoke").model
    other = load_recipe(
        "pro",
        profile="smoke",
        overrides=[
            "runtime.sampler.port=9000",
            "runtime.trainer.micro_batch_tokens=64",
            "runtime.sandbox.concurrency=2",
            "tracking.traces_per_step=0",
            "name=other",
        ],
    ).model
    assert other != plain
    assert other.semantic() == plain.semantic()


def test_a_section_is_plain_data() -> None:
    recipe = load_recipe("pro", profile="smoke").model
    assert recipe.section("rl_mixed.mask") == {
        "positive_low": 0.2,
        "positive_high": 5.0,
        "negative_low": 0.2,
        "negative_high": 5.0,
    }
    with pytest.raises(KeyError):
        recipe.section("policy.keep_layers")


def test_json_and_back_is_the_same_recipe() -> None:
    recipe = load_recipe("flash", profile="laptop").model
    assert Recipe.model_validate_json(recipe.model_dump_json(by_alias=True)) == recipe
    assert Recipe.model_validate(recipe.data()) == recipe


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("rl_mixed.group_size", 1, "greater than or equal to 2"),
        ("rl_mixed.mask.positive_low", 6.0, "positive_low 6 is not below positive_high 5"),
        ("rl_mixed.mask.negative_high", 0.5, "must contain 1"),
        ("rl_mixed.shares.coding", 0.5, "shares sum to 0.82, not 1"),
        ("rl_mixed.length_penalty.deadzone", 1.0, "deadzone 1 is not below saturation 1"),
        ("rl_mixed.keep_checkpoints", 1, "greater than or equal to 2"),
        ("mopd2.weights.student", 0.6, "weights sum to 1.1, not 1"),
        ("sampling.turn_tokens", 512, "sampling.turn_tokens 512 is not below policy.context_tokens 512"),
        ("harness.observation_tokens", 600, "harness.observation_tokens 600 is not below"),
        ("cold_start.stop_pass_rate.low", 0.7, "low 0.7 is not below high 0.7"),
        ("probe_hacks.clean_rounds", 7, "clean_rounds 7 is above max_rounds 6"),
        ("policy.init.heads", 5, "no multiple of heads 5"),
        ("policy.init", None, "needs `init`"),
        ("policy.source", "hf:one/two", "brings its own weights"),
        ("policy.source", "Qwen/Qwen3", "match pattern"),
        ("tasks.limits.command_s", 31, "must not fall"),
        ("tasks.sources", [], "at least 1 item"),
        ("stages", ["audit", "rl-mixed"], "this order"),
        ("stages", ["audit", "audit"], "this order"),
        ("sampling.top_p", float("nan"), "less than or equal to 1"),
        ("rl_mixed.steps", 2.0, "valid integer"),
        ("rl_mixed.steps", True, "valid integer"),
        ("canary.float32_mean", "1e-5", "valid number"),
    ],
)
def test_limits(path: str, value: Json, said: str) -> None:
    data = load_recipe("pro", profile="smoke").model.data()
    *above, last = path.split(".")
    node = data
    for part in above:
        below = node[part]
        assert isinstance(below, dict)
        node = below
    node[last] = value
    with pytest.raises(ValidationError) as caught:
        Recipe.model_validate(data)
    assert said in str(caught.value)


def test_cold_start_may_be_left_out() -> None:
    recipe = load_recipe("pro", profile="smoke", overrides=["cold_start=null"]).model
    assert recipe.cold_start is None


def test_the_schema_knows_files_that_extend() -> None:
    schema = json_schema()
    properties = schema["properties"]
    assert isinstance(properties, dict)
    assert {"extends", "profiles", "schema", "rl_mixed"} <= set(properties)
    assert "required" not in schema


def test_stage_names_are_the_seven() -> None:
    assert len(STAGE_NAMES) == 7


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sandbox.image", f"sha256:{'0' * 64}"),
        ("runtime.sandbox.runtime", "runsc"),
        ("runtime.sandbox.hosts", "['tcp://box:2375']"),
    ],
)
def test_keys_of_docker_are_refused_without_it(key: str, value: str) -> None:
    with pytest.raises(RecipeError, match=f"{key}: only sandbox.backend docker has that, not local"):
        load_recipe("pro", profile="smoke", overrides=[f"{key}={value}"])
    load_recipe("pro", profile="smoke", overrides=["sandbox.backend=docker", f"{key}={value}"])


def test_a_boxs_image_is_pinned_and_part_of_what_a_result_is() -> None:
    pinned = [f"python@sha256:{digit * 64}" for digit in "01"]
    with pytest.raises(RecipeError, match=r"sandbox\.image"):
        load_recipe("pro", profile="smoke", overrides=["sandbox.backend=docker", "sandbox.image=python:3.11"])
    docker = [
        load_recipe(
            "pro", profile="smoke", overrides=["sandbox.backend=docker", f"sandbox.image={image}"]
        ).model
        for image in pinned
    ]
    plain = load_recipe("pro", profile="smoke").model
    for stage in (PrepareEnv(), ProbeHacks()):
        assert stage.images(plain) == {}
        assert [stage.images(model) for model in docker] == [{"box": image} for image in pinned]
        assert "image" not in str(stage.params(plain)["sandbox"])
