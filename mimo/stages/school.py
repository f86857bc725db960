"""What training stages share: a trainer, the run's sampler, checkpoints, one way to publish weights.

Every change of weights takes the same road: one optimiser step, export, the sampler's update, the canary, a
checkpoint, the commit. A resume loads the newest whole checkpoint; a damaged one is passed over and counted.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from mimo.backends.base import LossSpec, TrainReport
from mimo.backends.devices import pick_device
from mimo.errors import StageFailed
from mimo.rollouts.house import House
from mimo.rollouts.signal import TrainedRollout
from mimo.run_dir.files import write_json
from mimo.stages.base import StageContext
from mimo.stages.rl_sequences import rl_loss, rl_sequences
from mimo.stages.signal_counts import count_masked_tokens
from mimo.stages.start import StartingPolicy
from mimo.stages.turns import samplers_turn, share_gpus, trainers_turn
from mimo.types import Checkpoint, Json

if TYPE_CHECKING:
    from mimo.backends.vllm import VllmSampler
    from mimo.training.batch import TrainSequence
    from mimo.training.canary import Canary
    from mimo.training.trainer import DeepSpeedTrainer

VERSIONS_PER_STAGE = 1_000_000
"""Weight version = stage's place x this + step: unique over a run, so no cache salt names two weights."""
_PLACES = {"cold-start": 1, "rl-mixed": 2, "mopd2": 3, "audit": 4, "synthesize-rubrics": 5}


def weight_version(stage: str, step: int) -> int:
    """The version the sampler carries for the weights after `step` steps of `stage`."""
    return _PLACES[stage] * VERSIONS_PER_STAGE + step


class School:
    """A training stage in progress; made by `open_school`."""

    def __init__(
        self,
        ctx: StageContext,
        stage: str,
        trainer: DeepSpeedTrainer,
        sampler: VllmSampler | asyncio.Task[VllmSampler],
        house: House,
        canary: Canary,
        *,
        keep: int,
        grad_clip: float,
    ) -> None:
        """`sampler` may still be coming up: the first `publish` waits for it, training does not."""
        self._ctx = ctx
        self._shares_gpus = share_gpus(ctx.recipe)
        self._stage = stage
        self._trainer = trainer
        self._canary = canary
        self._keep = keep
        self._grad_clip = grad_clip
        self._state: dict[str, Json] = {}
        self._manifest: Mapping[str, Json] | None = None
        self._published: Path | None = None
        self._sampler = sampler
        self._engine_is_new = True
        self.house = house
        self.step = 0
        """Steps already done when the stage began."""

    def state_int(self, key: str) -> int:
        """A number of the resumed state; 0 at a fresh start."""
        return int(cast(int, self._state.get(key, 0)))

    def state_ints(self, key: str) -> dict[str, int]:
        """Named numbers of the resumed state; empty at a fresh start."""
        return dict(cast("dict[str, int]", self._state.get(key, {})))

    @property
    def sampler(self) -> VllmSampler:
        """The engine, with the weights published last."""
        assert not isinstance(self._sampler, asyncio.Task), "nothing was published yet"
        return self._sampler

    @property
    def published(self) -> Path:
        """The servable folder of the weights the sampler holds now."""
        assert self._published is not None
        return self._published

    async def begin(self, start: StartingPolicy, *, publish: bool = True) -> None:
        """Load the newest checkpoint (or keep the start's weights) and bring the sampler to it.

        Without `publish` the weights are exported only; the engine is waited for where it shares the GPUs.
        """
        from mimo.training.checkpoint import TRAINER, newest_checkpoint

        if self._shares_gpus and isinstance(self._sampler, asyncio.Task):
            self._sampler = await self._sampler  # it must not start while the trainer takes memory
        found = newest_checkpoint(self._root, contents="all", on_damaged=self._damaged)
        if found is not None:
            folder, record = found
            await asyncio.to_thread(self._trainer.load, folder / TRAINER)
            self.step, self._state = record.step, dict(record.data_cursor)
            self._ctx.rewind(record.step, record.data_cursor)
        elif self._ctx.resume is not None and self._ctx.resume.step > 0:
            self._ctx.count("resume without a checkpoint", why="starts over from the starting policy")
            self._ctx.rewind(0, {})
        metrics = await self.publish(self.step) if publish else await self._export()
        self._ctx.event("weights", {"step": self.step, "start": start.policy, **metrics})
        if not (self._ctx.out / "start.json").exists():
            write_json(self._ctx.out / "start.json", {"policy": start.policy, "manifest": self._manifest})

    async def train(
        self, step: int, sequences: Sequence[TrainSequence], loss: LossSpec, learning_rate: float
    ) -> dict[str, float]:
        """One optimiser step over `sequences`, written as a batch folder first; the step's metrics."""
        from mimo.training.batch import write_batch

        self._engine_lives()
        turn = {"time/sleep_s": await trainers_turn(self.sampler)} if self._shares_gpus else {}
        folder = self._ctx.scratch / f"batch-{step:06d}"
        write_batch(folder, sequences, kind=loss.kind, step=step)
        report: TrainReport = await asyncio.to_thread(
            self._trainer.train_step, folder, loss, learning_rate=learning_rate
        )
        shutil.rmtree(folder)
        if report.metrics.get("tokens/signal", 1.0) > 0 and report.metrics["grad_norm"] > 0.0:
            self._state["trained_steps"] = self.state_int("trained_steps") + 1
            self._state["silent_steps"] = 0
        else:
            self.note_untrained(step, limit=None)
        if (norm := report.metrics["grad_norm"]) > self._grad_clip:
            self._ctx.count("gradient clipped to grad_clip", why=f"step {step}: norm {norm:.3g}")
        count_masked_tokens(self._ctx, step, report.metrics)
        return {f"train/{name}": value for name, value in report.metrics.items()} | {
            "train/learning_rate": learning_rate,
            "time/train_s": report.seconds,
            **turn,
        }

    async def train_rl(
        self, step: int, trained: Sequence[TrainedRollout], learning_rate: float
    ) -> dict[str, float]:
        """One masked importance-sampling step; each group's prompt is computed once."""
        loss = rl_loss(self._ctx.recipe, temperature=self._ctx.recipe.sampling.temperature)
        return await self.train(step, rl_sequences(trained), loss, learning_rate)

    def note_untrained(self, step: int, *, limit: int | None) -> None:
        """Count a step that changed nothing; `limit` such steps in a row fail the stage.

        Raises:
            StageFailed: the limit is reached.
        """
        self._state["silent_steps"] = self.state_int("silent_steps") + 1
        self._ctx.count("step without a training signal", why=f"step {step}")
        if limit is not None and self.state_int("silent_steps") >= limit:
            raise StageFailed(
                f"{limit} steps in a row without an accepted group (up to step {step})",
                hint="every task is always solved or never: other tasks, a longer cold start, "
                "or rl_mixed.stop_rejected_steps",
            )

    async def publish(self, step: int) -> dict[str, float]:
        """Export, update the sampler, run the canary; its numbers.

        Raises:
            EngineFailed: the sampler did not come up, or holds other weights than the trainer.
        """
        from mimo.training.weights import publish_and_update

        if isinstance(self._sampler, asyncio.Task):
            self._sampler = await self._sampler
        turn = {"time/wake_s": await samplers_turn(self._sampler)} if self._shares_gpus else {}
        folder = self._folder(step)
        version = weight_version(self._stage, step)
        report = await publish_and_update(
            self._trainer,
            self._sampler,
            folder,
            version,
            self._canary,
            previous=self._manifest,
            engine_started=self._engine_is_new,
        )
        self._engine_is_new = False
        self._ctx.sampler_holds(folder, version)
        self._note_export(folder, report.manifest)
        self.house.policy = f"{self._stage}:{step}"
        return report.metrics() | turn

    @asynccontextmanager
    async def sampler_asleep(self) -> AsyncIterator[None]:
        """Inside the block our own sampler's GPU memory is free, where teachers are read on GPUs."""
        runtime = self._ctx.recipe.runtime
        asked = runtime.trainer.device if runtime.teachers.device == "auto" else runtime.teachers.device
        ours = not runtime.sampler.urls and pick_device(runtime.sampler.device) == "cuda"
        if not ours or pick_device(asked) == "cpu":
            yield
            return
        await trainers_turn(self.sampler)
        try:
            yield
        finally:
            await samplers_turn(self.sampler)

    async def _export(self) -> dict[str, float]:
        """Write the weights as they are where `publish` writes them."""
        from mimo.training.manifest import check_export

        folder = self._folder(self.step)
        manifest = await asyncio.to_thread(self._trainer.export, folder)
        check_export(folder, None)
        self._note_export(folder, manifest)
        return {}

    def _note_export(self, folder: Path, manifest: Mapping[str, Json]) -> None:
        if self._published is not None and self._published != folder:
            shutil.rmtree(self._published, ignore_errors=True)
        self._manifest, self._published = manifest, folder

    def _folder(self, step: int) -> Path:
        return self._ctx.out / "published" / f"step-{step:06d}"

    def _engine_lives(self) -> None:
        """Raise what an engine that is coming up failed with, before more is computed."""
        if isinstance(self._sampler, asyncio.Task) and self._sampler.done():
            self._sampler.result()

    def checkpoint_due(self, step: int, *, every: int, last: int) -> bool:
        """Whether to write the checkpoint of `step`: each `every` steps, at the `last`, or to stop now."""
        return step % every == 0 or step == last or self._ctx.should_stop()

    def checkpoint(self, step: int, state: Mapping[str, Json]) -> None:
        """Write the checkpoint of `step`, then commit it; older ones beyond the recipe's number go."""
        from mimo.training.checkpoint import keep_newest, write_checkpoint

        self._state |= state
        record = Checkpoint(
            kind=self._stage,
            step=step,
            parent=None if step == 0 else f"{self._stage}:{self.step}",
            source=str(self._ctx.label),
            tokenizer_sha256="",
            files=(),
            rng={"seed": self._ctx.recipe.seed},
            data_cursor=dict(self._state),
        )
        published = self._published
        fresh = published if published is not None and published.name == f"step-{step:06d}" else None
        write_checkpoint(self._root, self._trainer, record, published=fresh)
        keep_newest(self._root, self._keep)
        if self._ctx.resume is None or step >= self._ctx.resume.step:
            self._ctx.commit(step, self._state)

    def finish(self) -> None:
        """Check that the stage trained and changed weights; drop what only a running stage needs.

        Raises:
            StageFailed: no step trained anything, or every exported tensor is what it was at the start.
        """
        from mimo.training.manifest import changed_tensors

        if self.state_int("trained_steps") == 0:
            raise StageFailed("no step trained anything: no non-zero advantage reached a token")
        start = json.loads((self._ctx.out / "start.json").read_bytes())["manifest"]
        assert self._manifest is not None
        changed = changed_tensors(start, self._manifest)
        if not changed:
            raise StageFailed("no exported tensor differs from the starting policy after training")
        self._ctx.event("weights changed", {"tensors": len(changed)})
        shutil.rmtree(self._ctx.out / "published", ignore_errors=True)

    async def close(self) -> None:
        """Leave the engine awake and close the connection to it, where there is one."""
        if not isinstance(self._sampler, asyncio.Task):
            if self._shares_gpus:
                await samplers_turn(self._sampler)
            await self._sampler.close()

    @property
    def _root(self) -> Path:
        return self._ctx.out / "checkpoints"

    def _damaged(self, folder: Path, why: str) -> None:
        self._ctx.count("checkpoint damaged, fell back to the one before", why=f"{folder.name}: {why}")
