"""Teachers of mopd2: each sample by its own, over the same passes; a sampler on GPUs sleeps meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mimo.recipe.loader import load_recipe
from mimo.stages import teachers
from mimo.stages.mopd2_samples import Kind, Sample
from mimo.stages.school import School
from mimo.training.canary import Canary
from mimo.training.reader import Context, reading
from mimo.training.reading_place import cpu_place
from tests.mimo.rollouts.made import made_rollout
from tests.mimo.training.conftest import write_model


class Told:
    """What `score_samples` needs of a stage's context."""

    def __init__(self, *overrides: str) -> None:
        self.recipe = load_recipe("pro", profile="smoke", overrides=overrides).model
        self.counted: list[tuple[str, str]] = []

    def count(self, what: str, amount: int = 1, *, why: str = "") -> None:
        self.counted.append((what, why))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("policies")
    return write_model(root / "one", tied=True), write_model(root / "two", tied=False, layers=1)


def samples() -> list[Sample]:
    kinds: Sequence[Kind] = ("student", "sft_prefix", "teacher_prefix", "sft_prefix")
    return [
        Sample(kind=kind, finished=made_rollout(place, True, group=kind, tokens=4 + place))
        for place, kind in enumerate(kinds)
    ]


def scored(ctx: Told, folders: tuple[Path, Path]) -> list[Any]:
    named = {"rl-mixed": folders[0], "cold-start": folders[1]}
    return teachers.score_samples(ctx, samples(), folders[0], named, temperature=1.0)  # type: ignore[arg-type]


def test_each_sample_is_scored_by_the_teacher_of_its_kind(folders: tuple[Path, Path]) -> None:
    ctx = Told()
    rows = scored(ctx, folders)
    gaps = [bool(row.gap.any()) for row in rows]
    assert gaps == [False, True, False, True]  # the student is the RL teacher itself: exactly 0
    payload = rows[1].sample.finished.payload
    with reading(folders[1], cpu_place("float32")) as policy:
        (alone,) = policy.logprobs([Context(payload.token_ids, payload.loss_mask)], temperature=1.0)
    assert np.array_equal(rows[1].teacher_logprobs, alone)
    assert ctx.counted == []


def test_a_step_without_samples_reads_nothing(tmp_path: Path) -> None:
    found = teachers.score_samples(
        Told(),  # type: ignore[arg-type]
        [],
        tmp_path / "nowhere",
        {"rl-mixed": tmp_path / "nowhere"},
        temperature=1.0,
    )
    assert found == []


def test_gpus_without_room_are_counted(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(teachers, "_free_bytes", lambda: (2**30, 2**31))
    ctx = Told("runtime.trainer.device=cuda")
    assert len(scored(ctx, folders)) == 4
    ((what, why),) = ctx.counted
    assert what == "teachers read on the CPU"
    assert "2.0 GiB are free on the emptiest of 2" in why


class Sleeper:
    """A sampler that notes when it sleeps."""

    def __init__(self, seen: list[str]) -> None:
        self._seen = seen
        self._asleep = False

    async def pause(self, *, sleep: bool = False) -> None:
        self._seen.append(f"pause sleep={sleep}")
        self._asleep = sleep

    async def resume(self, *, wake_up: bool = False) -> None:
        self._seen.append(f"resume wake_up={wake_up}")
        self._asleep = not wake_up

    async def is_sleeping(self) -> bool:
        return self._asleep


def asleep(*overrides: str, fails: bool = False) -> list[str]:
    seen: list[str] = []
    canary = Canary([], load_recipe("pro", profile="smoke").model.canary, exact=True, seed=0)
    ctx = Told(*overrides)
    school = School(ctx, "mopd2", None, Sleeper(seen), SimpleNamespace(), canary, keep=1, grad_clip=1.0)  # type: ignore[arg-type]

    async def work() -> None:
        async with school.sampler_asleep():
            seen.append("read")
            if fails:
                raise ZeroDivisionError

    if fails:
        with pytest.raises(ZeroDivisionError):
            asyncio.run(work())
    else:
        asyncio.run(work())
    return seen


GPUS = ("runtime.trainer.device=cuda", "runtime.sampler.device=cuda")


@pytest.mark.parametrize("fails", [False, True])
def test_our_sampler_sleeps_while_teachers_are_on_its_gpus_and_wakes_after_an_error(fails: bool) -> None:
    assert asleep(*GPUS, fails=fails) == ["pause sleep=True", "read", "resume wake_up=True"]


@pytest.mark.parametrize(
    "overrides",
    [
        (),
        (GPUS[0],),
        (*GPUS, "runtime.teachers.device=cpu"),
        (*GPUS, "runtime.sampler.urls=['http://elsewhere:1']"),
    ],
)
def test_nobody_sleeps_for_nothing(overrides: tuple[str, ...]) -> None:
    assert asleep(*overrides) == ["read"]
