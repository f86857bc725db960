"""A training stage interrupted and resumed to its end: damage costs steps, never the result."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from safetensors.numpy import load_file

from mimo.backends.base import LossSpec, TrainReport
from mimo.errors import EngineFailed, MachineLacks, StageFailed, StoppedSafely
from mimo.recipe.loader import load_recipe
from mimo.recipe.models import Canary as CanarySettings
from mimo.run_dir.files import read_lines
from mimo.stages.base import StageContext, StageResult
from mimo.stages.school import School
from mimo.stages.start import StartingPolicy
from mimo.training.canary import Canary, canary_sequences
from mimo.types import Json
from tests.mimo.stages.running import Running
from tests.mimo.training.conftest import make_sequences
from tests.mimo.training.folder_model import VOCABULARY, FolderSampler, FolderTrainer, random_weights

SETTINGS = CanarySettings(
    sequences=2, tokens=8, float32_mean=1e-5, bfloat16_noise_multiple=3.0, perturbation=0.3
)
STEPS = 5


class Trainer(FolderTrainer):
    """Says that each step had a gradient; replaces an export that is there, as the real one does."""

    def train_step(self, batch_dir: Path, loss: LossSpec, *, learning_rate: float) -> TrainReport:
        report = super().train_step(batch_dir, loss, learning_rate=learning_rate)
        return replace(report, metrics={"grad_norm": 1.0})

    full_at = 0

    def save(self, trainer_dir: Path) -> None:
        super().save(trainer_dir)
        if trainer_dir.parent.name.startswith(f".step-{self.full_at:06d}"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(trainer_dir))

    def load(self, trainer_dir: Path) -> None:
        order = list(self.weights)
        super().load(trainer_dir)
        self.weights = {name: self.weights[name] for name in order}  # a step draws tensor by tensor

    def export(self, model_dir: Path) -> Mapping[str, Json]:
        shutil.rmtree(model_dir, ignore_errors=True)
        return super().export(model_dir)


@dataclass
class Lessons:
    """A stage of nothing but the school; fails after step `fails_after`, meets a full disk at `full_at`."""

    name: ClassVar[str] = "rl-mixed"
    fails_after: int = 0
    full_at: int = 0
    every: int = 1

    def run(self, ctx: StageContext) -> StageResult:
        ctx.plan(STEPS)
        asyncio.run(self._train(ctx))
        return StageResult()

    async def _train(self, ctx: StageContext) -> None:
        canary = Canary(canary_sequences(VOCABULARY, SETTINGS, seed=0), SETTINGS, exact=True, seed=0)
        trainer, sampler = Trainer(random_weights()), FolderSampler(random_weights())
        trainer.full_at = self.full_at
        house = SimpleNamespace(policy="base")
        school = School(ctx, self.name, trainer, sampler, house, canary, keep=9, grad_clip=1.0)  # type: ignore[arg-type]
        await school.begin(StartingPolicy(model_dir=Path(), policy="base"))
        for step in range(school.step, STEPS):
            rows = make_sequences(groups=1, size=2, alone=0, seed=step)
            metrics = await school.train(step + 1, rows, LossSpec(kind="rl"), 0.1)
            metrics |= await school.publish(step + 1)
            ctx.log(step + 1, metrics | {"cursor": float(school.state_int("cursor"))})
            if school.checkpoint_due(step + 1, every=self.every, last=STEPS):
                school.checkpoint(step + 1, {"cursor": step + 1})
                ctx.check_stop()
            if self.fails_after == step + 1:
                raise StageFailed("interrupted")
        school.finish()


@dataclass
class Impatient:
    """A stage that trains twice while its engine comes up; the engine fails at the second step, or never."""

    name: ClassVar[str] = "cold-start"
    fails: bool

    def run(self, ctx: StageContext) -> StageResult:
        ctx.plan(2)
        asyncio.run(self._train(ctx))
        return StageResult()

    async def _train(self, ctx: StageContext) -> None:
        canary = Canary(canary_sequences(VOCABULARY, SETTINGS, seed=0), SETTINGS, exact=True, seed=0)
        engine: asyncio.Future[FolderSampler] = asyncio.get_running_loop().create_future()
        sampler = asyncio.create_task(_wait_for(engine))
        house = SimpleNamespace(policy="base")
        school = School(
            ctx, self.name, Trainer(random_weights()), sampler, house, canary, keep=9, grad_clip=1.0
        )  # type: ignore[arg-type]
        await school.begin(StartingPolicy(model_dir=Path(), policy="base"), publish=False)
        for step in (1, 2):
            if step == 2 and self.fails:
                engine.set_exception(EngineFailed("it died"))
                await asyncio.wait([sampler])
            rows = make_sequences(groups=1, size=2, alone=0, seed=step)
            await school.train(step, rows, LossSpec(kind="sft"), 0.1)
        assert not sampler.done()
        engine.set_result(FolderSampler(random_weights()))
        ctx.log(2, await school.publish(2))
        school.checkpoint(2, {})
        school.finish()
        await school.close()


async def _wait_for(engine: asyncio.Future[FolderSampler]) -> FolderSampler:
    return await engine


def test_a_school_trains_while_its_engine_comes_up(tmp_path: Path) -> None:
    recipe = load_recipe("pro", profile="smoke").model
    stage = Running(Impatient(fails=False), recipe, tmp_path / "a", tmp_path / "cache", {})  # type: ignore[arg-type]
    stage.run()
    [row] = read_lines(stage.folder / "metrics.jsonl")
    assert row["metrics"]["canary/mean"] < 1e-5  # type: ignore[index, call-overload, operator]
    stage = Running(Impatient(fails=True), recipe, tmp_path / "b", tmp_path / "cache", {})  # type: ignore[arg-type]
    with pytest.raises(EngineFailed, match="it died"):
        stage.run()


@pytest.fixture
def running(tmp_path: Path) -> Callable[[str, int], Running]:
    recipe = load_recipe("pro", profile="smoke").model

    def make(name: str, fails_after: int) -> Running:
        return Running(Lessons(fails_after), recipe, tmp_path / name, tmp_path / "cache", {})  # type: ignore[arg-type]

    return make


def cut(folder: Path) -> None:
    path = folder / "trainer" / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:100])


def forget(folder: Path) -> None:
    (folder / "checkpoint.json").unlink()


def assert_same_end(broken: Running, whole: Running) -> None:
    """Weights of both last checkpoints are equal, bit for bit."""
    for name in ("model/model.safetensors", "trainer/weights.safetensors"):
        ours, theirs = (
            load_file(item.out / "checkpoints" / f"step-{STEPS:06d}" / name) for item in (broken, whole)
        )
        assert all(np.array_equal(ours[key], theirs[key]) for key in theirs)


@pytest.mark.parametrize(
    ("damage", "goes_on_from"),
    [
        ({}, 3),
        ({3: cut}, 2),
        ({3: forget}, 2),
        ({3: cut, 2: forget}, 1),
        ({3: shutil.rmtree}, 2),
        ({3: cut, 2: cut, 1: cut}, 0),
    ],
)
def test_a_resume_ends_where_an_uninterrupted_run_ends(
    running: Callable[[str, int], Running], damage: dict[int, Callable[[Path], None]], goes_on_from: int
) -> None:
    whole = running("whole", 0)
    whole.run()
    broken = running("broken", 3)
    with pytest.raises(StageFailed, match="interrupted"):
        broken.run()
    for step, harm in damage.items():
        harm(broken.out / "checkpoints" / f"step-{step:06d}")
    broken.stage = Lessons()  # type: ignore[assignment]
    broken.run()
    assert_same_end(broken, whole)
    rows = read_lines(broken.folder / "metrics.jsonl")
    assert [row["step"] for row in rows] == list(range(1, STEPS + 1))
    assert [row["metrics"]["cursor"] for row in rows] == list(range(STEPS))  # type: ignore[index, call-overload]
    passed_over = sum(harm is not shutil.rmtree for harm in damage.values())
    assert broken.counted("checkpoint damaged, fell back to the one before") == passed_over
    assert broken.counted("resume without a checkpoint") == (goes_on_from == 0)
    back = [(item["before"], item["step"]) for item in broken.heard if item["kind"] == "rewind"]
    assert back == ([(3, goes_on_from)] if goes_on_from < 3 else [])
    commits = [item["step"] for item in broken.heard if item["kind"] == "commit"]
    assert commits == [1, 2, 3, *range(goes_on_from + 1, STEPS + 1)]


def test_a_full_disk_in_a_checkpoint_is_one_clear_error_and_the_next_start_goes_on(
    running: Callable[[str, int], Running],
) -> None:
    whole = running("whole", 0)
    whole.run()
    broken = running("broken", 0)
    broken.stage = Lessons(full_at=3)  # type: ignore[assignment]
    with pytest.raises(MachineLacks, match=r"no space left on the disk .* committed so far is kept"):
        broken.run()
    checkpoints = broken.out / "checkpoints"
    assert sorted(path.name for path in checkpoints.iterdir()) == ["step-000001", "step-000002"]
    assert [row["step"] for row in read_lines(broken.folder / "metrics.jsonl")] == [1, 2]
    broken.stage = Lessons()  # type: ignore[assignment]
    broken.run()
    assert_same_end(broken, whole)
    assert not [item for item in broken.heard if item["kind"] in ("rewind", "count")]
    assert [row["step"] for row in read_lines(broken.folder / "metrics.jsonl")] == list(range(1, STEPS + 1))


def test_steps_between_two_checkpoints_are_trained_again_and_a_stop_waits_for_none(
    running: Callable[[str, int], Running],
) -> None:
    whole = running("whole", 0)
    whole.run()
    broken = running("broken", 0)
    broken.stage = Lessons(fails_after=3, every=2)  # type: ignore[assignment]
    with pytest.raises(StageFailed, match="interrupted"):
        broken.run()
    assert [row["step"] for row in read_lines(broken.folder / "metrics.jsonl")] == [1, 2]
    broken.stage = Lessons(every=2)  # type: ignore[assignment]
    with pytest.raises(StoppedSafely, match="after step 3 was saved"):
        broken.run(stop=True)
    broken.run()
    assert_same_end(broken, whole)
    assert [item["step"] for item in broken.heard if item["kind"] == "commit"] == [2, 3, 4, 5]
    assert [row["step"] for row in read_lines(broken.folder / "metrics.jsonl")] == list(range(1, STEPS + 1))
