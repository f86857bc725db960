"""The canary's judgement and the weight update around it, on a policy that can be computed by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from mimo.errors import EngineFailed
from mimo.recipe.models import Canary as CanarySettings
from mimo.training.canary import PERTURBED_VERSION, Canary, canary_sequences, perturb
from mimo.training.weights import CanaryReport, publish_and_update
from mimo.types import Json
from tests.mimo.training.folder_model import (
    EMBEDDING,
    HEAD,
    LAYER,
    VOCABULARY,
    FolderSampler,
    FolderTrainer,
    random_weights,
)

SETTINGS = CanarySettings(
    sequences=6, tokens=24, float32_mean=1e-5, bfloat16_noise_multiple=4.0, perturbation=0.5
)


def canary(*, exact: bool) -> Canary:
    return Canary(canary_sequences(VOCABULARY, SETTINGS, seed=3), SETTINGS, exact=exact, seed=3)


def update(
    trainer: FolderTrainer,
    sampler: FolderSampler,
    folder: Path,
    check: Canary,
    *,
    version: int = 1,
    engine_started: bool = False,
    previous: Mapping[str, Json] | None = None,
) -> CanaryReport:
    return asyncio.run(
        publish_and_update(
            trainer, sampler, folder, version, check, engine_started=engine_started, previous=previous
        )
    )


def test_sequences_are_fixed_and_begin_with_prompts() -> None:
    one = canary_sequences(VOCABULARY, SETTINGS, seed=3, prompts=[[1, 2, 3], list(range(40))])
    assert one == canary_sequences(VOCABULARY, SETTINGS, seed=3, prompts=[[1, 2, 3], list(range(40))])
    assert one != canary_sequences(VOCABULARY, SETTINGS, seed=4, prompts=[[1, 2, 3], list(range(40))])
    assert [len(ids) for ids in one] == [24] * 6
    assert one[0][:3] == (1, 2, 3)
    assert one[1] == tuple(range(24))
    assert all(0 <= token < VOCABULARY for ids in one for token in ids)


def test_an_update_is_confirmed_with_its_numbers(tmp_path: Path) -> None:
    trainer, sampler, check = (
        FolderTrainer(random_weights()),
        FolderSampler(random_weights()),
        canary(exact=True),
    )
    first = update(trainer, sampler, tmp_path / "1", check, engine_started=True)
    assert first.changed is None
    trainer.train_step(tmp_path, None, learning_rate=0.1)  # type: ignore[arg-type]
    second = update(trainer, sampler, tmp_path / "2", check, version=2, previous=first.manifest)
    assert second.changed == 3
    assert second.agreement.tokens == 6 * 23
    assert second.agreement.mean < 1e-6
    assert second.metrics()["canary/bound"] == 1e-5
    assert sampler.seen == [1, 2]


@pytest.mark.parametrize("kept", [HEAD, LAYER, EMBEDDING])
def test_a_tensor_that_stays_old_is_seen(tmp_path: Path, kept: str) -> None:
    """The defect of tied embeddings: the call succeeds, the checksum is right, the head is old."""
    trainer, sampler = FolderTrainer(random_weights()), FolderSampler(random_weights(), keeps=kept)
    check = canary(exact=True)
    update(trainer, sampler, tmp_path / "1", check, engine_started=True)
    trainer.train_step(tmp_path, None, learning_rate=0.01)  # type: ignore[arg-type]
    with pytest.raises(EngineFailed, match=r"differ after the update to weights 2: mean .* bound 1e-05"):
        update(trainer, sampler, tmp_path / "2", check, version=2)


def test_an_export_without_a_tensor_never_reaches_the_engine(tmp_path: Path) -> None:
    trainer, sampler, check = (
        FolderTrainer(random_weights()),
        FolderSampler(random_weights()),
        canary(exact=True),
    )
    first = update(trainer, sampler, tmp_path / "1", check, engine_started=True)
    trainer.leaves_out = LAYER
    with pytest.raises(EngineFailed, match=rf"{LAYER}: missing"):
        update(trainer, sampler, tmp_path / "2", check, version=2, previous=first.manifest)
    assert sampler.seen == [1]


def test_a_cache_that_was_not_reset_is_refused(tmp_path: Path) -> None:
    trainer, sampler = FolderTrainer(random_weights()), FolderSampler(random_weights(), resets=False)
    with pytest.raises(EngineFailed, match="prefix cache NOT reset"):
        update(trainer, sampler, tmp_path / "1", canary(exact=True))


def test_bfloat16_measures_its_noise_and_shows_that_it_can_see(tmp_path: Path) -> None:
    trainer = FolderTrainer(random_weights())
    sampler, check = FolderSampler(random_weights(), noise=0.01), canary(exact=False)
    with pytest.raises(EngineFailed, match="no bound yet"):
        update(trainer, sampler, tmp_path / "0", check)
    report = update(trainer, sampler, tmp_path / "1", check, engine_started=True)
    assert report.noise_floor == pytest.approx(0.01, rel=1e-3)
    assert report.bound == pytest.approx(0.04, rel=1e-3)
    assert sampler.seen == [1, 1, PERTURBED_VERSION, PERTURBED_VERSION, 1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]
    trainer.train_step(tmp_path, None, learning_rate=0.001)  # type: ignore[arg-type]
    assert update(trainer, sampler, tmp_path / "2", check, version=2).agreement.mean < report.bound


@pytest.mark.parametrize(("kept", "part"), [(HEAD, "head"), (LAYER, "layers")])
def test_an_engine_that_drops_a_part_is_found_at_its_start(tmp_path: Path, kept: str, part: str) -> None:
    """In bfloat16 small steps hide in the noise, so the start must show that the part is taken."""
    sampler = FolderSampler(random_weights(), noise=0.01, keeps=kept)
    with pytest.raises(EngineFailed, match=rf"a {part} perturbed by 0.5 is not seen"):
        update(
            FolderTrainer(random_weights()), sampler, tmp_path / "1", canary(exact=False), engine_started=True
        )
    assert [path.name for path in tmp_path.iterdir()] == ["1"]


def test_a_blind_canary_is_an_error(tmp_path: Path) -> None:
    sampler = FolderSampler(random_weights(), noise=5.0)
    with pytest.raises(EngineFailed, match="is not seen"):
        update(
            FolderTrainer(random_weights()), sampler, tmp_path / "1", canary(exact=False), engine_started=True
        )


def test_nan_never_passes(tmp_path: Path) -> None:
    weights = random_weights()
    weights[HEAD][0, 0] = np.nan
    with pytest.raises(EngineFailed, match="differ after the update"):
        update(FolderTrainer(weights), FolderSampler(random_weights()), tmp_path / "1", canary(exact=True))


def test_perturb_changes_its_part_only(tmp_path: Path) -> None:
    FolderTrainer(random_weights()).export(tmp_path / "model")
    for part, wanted in (("head", [HEAD]), ("layers", [LAYER])):
        assert perturb(tmp_path / "model", tmp_path / part, part, relative=0.1, seed=1) == wanted  # type: ignore[arg-type]
        before = load_file(tmp_path / "model" / "model.safetensors")
        after = load_file(tmp_path / part / "model.safetensors")
        changed = [name for name in before if not np.array_equal(before[name], after[name])]
        assert changed == wanted
        moved = (after[wanted[0]] - before[wanted[0]]).std() / before[wanted[0]].std()
        assert moved == pytest.approx(0.1, rel=0.2)
