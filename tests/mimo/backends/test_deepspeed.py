"""DeepSpeed's configuration: what it would ignore is refused, what our loop owns cannot be set."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mimo.backends.base import TrainerConfig
from mimo.backends.deepspeed import OWNED, PASSED, check_keys, deepspeed_config
from mimo.errors import RecipeError

CONFIG = TrainerConfig(
    model_dir=Path("model"),
    compute_dtype="bfloat16",
    optimizer={"name": "adamw"},
    grad_clip=1.0,
    seed=0,
    zero_stage=2,
    deepspeed={"zero_optimization": {"reduce_bucket_size": 1000}},
)


@pytest.mark.parametrize(
    ("wrong", "guess"),
    [
        ("gradient_cliping", "gradient_clipping"),
        ("zero_optimisation", "zero_optimization"),
        ("activation_checkpoint", "activation_checkpointing"),
    ],
)
def test_a_misspelt_key_is_refused_with_a_suggestion(wrong: str, guess: str) -> None:
    with pytest.raises(RecipeError, match=rf"{wrong}.*did you mean {guess}"):
        check_keys({wrong: 1})


def test_every_letter_of_every_key_is_checked() -> None:
    for key in PASSED:
        for place in range(len(key)):
            with pytest.raises(RecipeError):
                check_keys({key[:place] + "#" + key[place + 1 :]: 1})


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(RecipeError) as caught:
        check_keys({"nonsense": 1, "train_batch_size": 8, "zero_optimization": {}})
    assert "nonsense" in caught.value.message
    assert OWNED["train_batch_size"] in caught.value.message
    assert "zero_optimization:" not in caught.value.message


def test_extra_settings_are_merged_below_ours() -> None:
    built = deepspeed_config(CONFIG, world_size=4)
    assert built["zero_optimization"] == {"stage": 2, "overlap_comm": False, "reduce_bucket_size": 1000}
    assert built["managed_gradient_accumulation"] is False
    assert built["train_batch_size"] == 4
    assert built["bf16"] == {"enabled": True}


def test_the_stage_cannot_be_changed_from_below() -> None:
    changed = replace(CONFIG, deepspeed={"zero_optimization": {"stage": 3}})
    with pytest.raises(RecipeError, match="zero_stage"):
        deepspeed_config(changed, world_size=1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"optimizer": {"name": "muon"}}, "muon with runtime.trainer.zero_stage 2"),
        ({"optimizer": {"name": "sgd"}}, "known: adamw, muon"),
        ({"optimizer": {"name": "adamw", "beta": 1}}, "unknown keys beta"),
        ({"num_processes": 0}, "num_processes 0"),
    ],
)
def test_what_cannot_work_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        deepspeed_config(replace(CONFIG, **changes), world_size=1)  # type: ignore[arg-type]
