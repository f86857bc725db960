"""Sampler and trainer on the same GPUs: who is awake when (stand-in engines, the real order)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest

from mimo.backends.base import LossSpec, TrainReport
from mimo.backends.scripted import ScriptedSampler
from mimo.errors import EngineFailed
from mimo.recipe.loader import load_recipe
from mimo.run_dir.files import read_lines
from mimo.stages.base import StageContext, StageResult
from mimo.stages.school import School
from mimo.stages.start import StartingPolicy
from mimo.stages.turns import samplers_turn, share_gpus, trainers_turn
from mimo.training.canary import Canary, canary_sequences
from tests.mimo.stages.running import Running
from tests.mimo.stages.test_school import SETTINGS, Trainer
from tests.mimo.training.conftest import make_sequences
from tests.mimo.training.folder_model import VOCABULARY, FolderSampler, random_weights

GPUS = ("runtime.trainer.device=cuda", "runtime.sampler.device=cuda")


@dataclass
class Sharing:
    """Two steps, published after each, or (`late`) after both with an engine that is still coming up."""

    name: ClassVar[str] = "rl-mixed"
    late: bool
    asleep: list[bool] = field(default_factory=list)
    """Whether the sampler slept, at every step of the trainer."""
    sampler: FolderSampler = field(default_factory=lambda: FolderSampler(random_weights()))

    def run(self, ctx: StageContext) -> StageResult:
        ctx.plan(2)
        asyncio.run(self._train(ctx))
        return StageResult()

    async def _train(self, ctx: StageContext) -> None:
        canary = Canary(canary_sequences(VOCABULARY, SETTINGS, seed=0), SETTINGS, exact=True, seed=0)
        engine = asyncio.create_task(self._up()) if self.late else self.sampler
        watching = Watching(self)
        house = SimpleNamespace(policy="base")
        school = School(ctx, self.name, watching, engine, house, canary, keep=9, grad_clip=1.0)  # type: ignore[arg-type]
        await school.begin(StartingPolicy(model_dir=Path(), policy="base"), publish=not self.late)
        for step in (1, 2):
            rows = make_sequences(groups=1, size=2, alone=0, seed=step)
            metrics = await school.train(step, rows, LossSpec(kind="rl"), 0.1)
            if step == 2 or not self.late:
                metrics |= await school.publish(step)
            ctx.log(step, metrics)
            school.checkpoint(step, {})
        rows = make_sequences(groups=1, size=2, alone=0, seed=3)
        await school.train(3, rows, LossSpec(kind="rl"), 0.1)
        await school.close()

    async def _up(self) -> FolderSampler:
        return self.sampler


class Watching(Trainer):
    """Notes at each step whether the sampler sleeps."""

    def __init__(self, stage: Sharing) -> None:
        super().__init__(random_weights())
        self._stage = stage

    def train_step(self, batch_dir: Path, loss: LossSpec, *, learning_rate: float) -> TrainReport:
        self._stage.asleep.append(self._stage.sampler.asleep)
        return super().train_step(batch_dir, loss, learning_rate=learning_rate)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_the_sampler_sleeps_while_the_trainer_trains(tmp_path: Path, late: bool, shared: bool) -> None:
    recipe = load_recipe("pro", profile="smoke", overrides=GPUS if shared else ()).model
    stage = Sharing(late)
    run = Running(stage, recipe, tmp_path / "work", tmp_path / "cache", {})  # type: ignore[arg-type]
    run.run()
    assert stage.asleep == [shared] * 3
    assert not stage.sampler.asleep
    told = set(read_lines(run.folder / "metrics.jsonl")[-1]["metrics"])  # type: ignore[call-overload, arg-type]
    assert ({"time/sleep_s", "time/wake_s"} & told == {"time/sleep_s", "time/wake_s"}) is shared


@pytest.mark.parametrize(
    ("overrides", "shared"),
    [
        (GPUS, True),
        ((), False),
        (GPUS[:1], False),
        (GPUS[1:], False),
        ((*GPUS, "runtime.sampler.urls=['http://elsewhere:1']"), False),
        ((*GPUS, "runtime.trainer.hostfile=/hosts"), False),
    ],
)
def test_only_engines_on_the_same_gpus_take_turns(overrides: tuple[str, ...], shared: bool) -> None:
    assert share_gpus(load_recipe("pro", profile="smoke", overrides=overrides).model) is shared


def test_a_turn_that_is_taken_already_costs_nothing() -> None:
    sampler = ScriptedSampler({})

    async def turns() -> list[bool]:
        seen = []
        for turn in (samplers_turn, trainers_turn, trainers_turn, samplers_turn, samplers_turn):
            await turn(sampler)
            seen.append(sampler.asleep)
        return seen

    assert asyncio.run(turns()) == [False, True, True, False, False]


def test_a_sampler_that_cannot_wake_up_says_what_to_lower() -> None:
    class Oversleeping(ScriptedSampler):
        async def resume(self, *, wake_up: bool = False) -> None:
            raise EngineFailed("http://here/wake_up: 500: CUDA out of memory")

    sampler = Oversleeping({})
    asyncio.run(trainers_turn(sampler))
    with pytest.raises(EngineFailed, match=r"beside the trainer: .*500: CUDA out of memory") as failed:
        asyncio.run(samplers_turn(sampler))
    assert "lower runtime.sampler.gpu_memory_utilization" in str(failed.value.hint)
