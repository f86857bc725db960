"""Time per stage of a finished run, and what the orchestrator adds to one rl-mixed step.

    python benchmarks/overhead.py HOME [--step N]

HOME is the MIMO_HOME of a finished run of recipes/pro.yaml. The step's recorded token ids are replayed
through raw calls at the run's concurrency: one HTTP request a turn straight to vLLM (as many tokens, nothing
else), the turn's tool call in a box, the verifier; then one DeepSpeed step on the same batch, one export, one
reload. Sampling and boxes run side by side there as in the run; each is replayed alone too:

    overhead = (step - raw rollouts with boxes - optimiser step - export - update)
               / (raw sampling alone + optimiser step + export + update)

Every raw part runs twice and the second time counts: the first call of an engine is slower.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import httpx

from mimo.backends.base import LossSpec, SamplerConfig, TrainerConfig
from mimo.backends.vllm import VllmSampler, start_server
from mimo.domains import load_domain
from mimo.domains.base import TaskStore, open_local
from mimo.harnesses import load_harness
from mimo.recipe.loader import load_recipe
from mimo.recipe.models import Recipe
from mimo.rollouts.changes import read_changes
from mimo.rollouts.groups import GroupPlan
from mimo.rollouts.loop import Finished
from mimo.rollouts.signal import SampledGroup, TrainedRollout, learning_signal
from mimo.rollouts.store import RolloutStore
from mimo.rollouts.token_log import Payload
from mimo.stages.rl_loop import signal_rules
from mimo.stages.school import rl_sequences
from mimo.stages.tasks import _open, read_tasks
from mimo.training.batch import write_batch
from mimo.training.checkpoint import MODEL, newest_checkpoint
from mimo.training.trainer import start_trainer
from mimo.types import Rollout, Task, Turn
from sandbox.base import Sandbox
from sandbox.rootfs import ensure_rootfs

ROOT = Path(__file__).parents[1]
ALONE = "sampling alone"
TOGETHER = "rollouts, boxes included"
T = TypeVar("T")


@dataclass(frozen=True)
class Recorded:
    """One rl-mixed step as its files tell it."""

    recipe: Recipe
    home: Path
    tasks: dict[str, Task]
    store: TaskStore
    model_dir: Path
    rollouts: list[Rollout]
    payloads: dict[str, Payload]
    metrics: dict[str, float]


def main() -> None:
    """Print the stages' times and the parts of one step."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("home", type=Path)
    options.add_argument("--profile", default="smoke")
    options.add_argument("--step", type=int, default=2)
    args = options.parse_args()
    _print_stages(args.home)
    recorded = _read(args.home, args.profile, args.step)
    boxes = asyncio.run(_replay(recorded, None, "boxes"))
    raw = _replay_engines(recorded)
    step = recorded.metrics["time/step_s"]
    print(f"\nrl-mixed step {args.step}: {step:.2f} s, {len(recorded.rollouts)} rollouts")
    print(f"  boxes and verifier alone: {boxes:.2f} s")
    for name, seconds in raw.items():
        print(f"  raw {name}: {seconds:.2f} s")
    alone = raw.pop(ALONE)
    together = raw.pop(TOGETHER)
    added = step - together - sum(raw.values())
    print(
        f"  orchestrator: {added:+.2f} s, {added / (alone + sum(raw.values())):+.1%} of the raw engine calls"
    )


def _print_stages(home: Path) -> None:
    for path in sorted((home / "store").glob("*/*/manifest.json"), key=lambda item: item.stat().st_mtime):
        manifest = json.loads(path.read_text())
        print(f"{manifest['stage']:20s} {manifest['wall_s']:8.1f} s  ({manifest['planned']} units)")


def _newest(home: Path, stage: str) -> Path:
    found = (home / "store" / stage).glob("*/manifest.json")
    return max(found, key=lambda path: path.stat().st_mtime).parent


def _read(home: Path, profile: str, step: int) -> Recorded:
    output, prepared = _newest(home, "rl-mixed"), _newest(home, "probe-hacks")
    store = RolloutStore(output)
    rows = (output / "_run" / "metrics.jsonl").read_text().splitlines()
    found = newest_checkpoint(output / "checkpoints", on_damaged=print)
    assert found is not None
    return Recorded(
        recipe=load_recipe(ROOT / "recipes" / "pro.yaml", profile=profile).model,
        home=home,
        tasks={task.task_id: task for task in read_tasks(prepared)},
        store=TaskStore(prepared),
        model_dir=found[0] / MODEL,
        rollouts=list(store.rollouts(step)),
        payloads=dict(store.payloads(step)),
        metrics=json.loads(rows[step - 1])["metrics"],
    )


class Boxes:
    """The step's boxes: tool calls and verifications as the records tell them."""

    def __init__(self, recorded: Recorded) -> None:
        self.recorded = recorded
        runtime = recorded.recipe.runtime.sandbox
        self.acting = ThreadPoolExecutor(runtime.concurrency)
        self.verifying = ThreadPoolExecutor(runtime.verifiers)
        self.diffs = _newest(recorded.home, "rl-mixed") / "diffs"
        self.verified: set[tuple[str, str | None]] = set()
        self.open_box = partial(
            _open,
            open_local,
            ensure_rootfs(recorded.home / "cache"),
            "overhead",
            recorded.store.root / "tools",
        )

    async def open(self, rollout: Rollout) -> Sandbox:
        """A fresh box of the rollout's task."""
        task = self.recorded.tasks[rollout.task_id]
        return await self._act(self.open_box, task, self.recorded.store.snapshot(task), {})

    async def call(self, rollout: Rollout, turn: Turn, box: Sandbox) -> None:
        """Run one turn's tool call."""
        task = self.recorded.tasks[rollout.task_id]
        harness = load_harness(rollout.harness, max_turns=self.recorded.recipe.harness.max_turns)
        await self._act(harness.act, turn.tool_calls[0] if turn.tool_calls else None, box, task)

    async def close(self, rollout: Rollout, box: Sandbox) -> None:
        """Take the box's changes and judge them; equal changes are judged once, as in the run."""
        await self._act(box.freeze)
        await self._act(box.changes)
        await self._act(box.close)
        if not rollout.diff or (rollout.task_id, rollout.diff) in self.verified:
            return
        self.verified.add((rollout.task_id, rollout.diff))
        await asyncio.get_running_loop().run_in_executor(self.verifying, self._verify, rollout)

    def _verify(self, rollout: Rollout) -> None:
        task = self.recorded.tasks[rollout.task_id]
        load_domain(task.domain).verify(
            task,
            read_changes(self.diffs, str(rollout.diff)),
            self.recorded.store,
            lambda snapshot, mounts: self.open_box(task, snapshot, mounts),
        )

    async def _act(self, function: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.acting, function, *args)


def _replay_engines(recorded: Recorded) -> dict[str, float]:
    """Seconds of the raw calls: sampling, the optimiser step, export, weight update and canary scoring."""
    recipe = recorded.recipe
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        sampler = SamplerConfig(
            model_dir=recorded.model_dir,
            dtype=recipe.policy.dtype,
            max_model_len=recipe.policy.context_tokens,
            kv_cache_gib=recipe.runtime.sampler.kv_cache_gib,
            max_num_seqs=recipe.runtime.sampler.max_num_seqs,
            log_file=work / "sampler.log",
        )
        spec = recipe.rl_mixed.optimizer
        trainer_config = TrainerConfig(
            model_dir=recorded.model_dir,
            compute_dtype=recipe.policy.dtype,
            optimizer=spec.model_dump(mode="json"),
            grad_clip=recipe.rl_mixed.grad_clip,
            seed=recipe.seed,
            micro_batch_tokens=recipe.runtime.trainer.micro_batch_tokens,
            log_file=work / "trainer.log",
        )
        with start_server(sampler) as server, start_trainer(trainer_config) as trainer:
            for salt in ("warm", "weights-1"):
                seconds = {ALONE: asyncio.run(_replay(recorded, server.url, salt, boxes=False))}
            seconds[TOGETHER] = asyncio.run(_replay(recorded, server.url, "weights-2"))
            write_batch(work / "batch", rl_sequences(_trained(recorded)), kind="rl", step=1)
            for version in (1, 2):
                began = time.monotonic()
                trainer.train_step(work / "batch", LossSpec(kind="rl"), learning_rate=spec.learning_rate)
                seconds["optimiser step"] = time.monotonic() - began
                began = time.monotonic()
                trainer.export(work / f"model-{version}")
                seconds["export"] = time.monotonic() - began
                began = time.monotonic()
                asyncio.run(_update_raw(server.url, recorded.model_dir, work / f"model-{version}", version))
                seconds["weight update"] = time.monotonic() - began
    return seconds


async def _update_raw(url: str, reference: Path, folder: Path, version: int) -> None:
    sampler = VllmSampler(url, 0, reference_dir=reference)
    await sampler.update_weights(folder, version)
    await sampler.close()


async def _replay(recorded: Recorded, url: str | None, salt: str, *, boxes: bool = True) -> float:
    """Seconds of the step's rollouts: turns one after another, rollouts side by side.

    With `url` None nothing is sampled. `salt` keeps one replay's prefix cache from the next; within one the
    prompts are shared, as in the run.
    """
    gate = asyncio.Semaphore(recorded.recipe.runtime.sandbox.concurrency)
    limits = httpx.Limits(max_connections=256, max_keepalive_connections=256)
    held = Boxes(recorded) if boxes else None

    async def rollout(row: Rollout, client: httpx.AsyncClient) -> None:
        ids = recorded.payloads[row.rollout_id].token_ids.tolist()
        async with gate:
            box = await held.open(row) if held else None
            for turn in row.contexts[0].turns:
                if turn.role != "assistant":
                    continue
                if url is not None:
                    await _sample(client, recorded, ids, turn.span, salt)
                if held and box:
                    await held.call(row, turn, box)
            if held and box:
                await held.close(row, box)

    async with httpx.AsyncClient(base_url=url or "", timeout=600, limits=limits) as client:
        began = time.monotonic()
        await asyncio.gather(*(rollout(row, client) for row in recorded.rollouts if row.contexts))
        return time.monotonic() - began


async def _sample(
    client: httpx.AsyncClient, recorded: Recorded, ids: list[int], span: tuple[int, int], salt: str
) -> None:
    start, end = span
    body = {
        "token_ids": ids[:start],
        "cache_salt": salt,
        "sampling_params": {
            "max_tokens": end - start,
            "min_tokens": end - start,
            "ignore_eos": True,
            "temperature": recorded.recipe.sampling.temperature,
            "logprobs": 0,
            "watermarking": False,
        },
    }
    answer = await client.post("/inference/v1/generate", json=body)
    answer.raise_for_status()


def _trained(recorded: Recorded) -> list[TrainedRollout]:
    """The step's learning signal, made again from its records."""
    groups: dict[str, list[Finished]] = {}
    for row in recorded.rollouts:
        reward = None if row.verdict is None else float(row.verdict.passed)
        fresh = replace(row, reward=reward)
        item = Finished(rollout=fresh, payload=recorded.payloads.get(row.rollout_id), changes=None)
        groups.setdefault(row.group_id, []).append(item)
    sampled = [
        SampledGroup(
            plan=GroupPlan(
                group_id=name,
                task=recorded.tasks[rows[0].rollout.task_id],
                harness=rows[0].rollout.harness,
                step=rows[0].rollout.step,
                size=len(rows),
            ),
            finished=tuple(rows),
            method=recorded.tasks[rows[0].rollout.task_id].routing,
        )
        for name, rows in groups.items()
    ]
    return list(learning_signal(sampled, signal_rules(recorded.recipe)).trained)


if __name__ == "__main__":
    main()
