"""Time per stage of a finished run, and what the orchestrator adds to one rl-mixed step.

    python benchmarks/overhead.py HOME [--step N]

HOME is the MIMO_HOME of a finished run of recipes/pro.yaml. The step's recorded token ids are replayed
through raw calls: one HTTP request a turn straight to vLLM (as many at once, as many tokens, nothing else),
one DeepSpeed step on the same batch, one export, one reload. The step's sandbox and verifier work is replayed
alone, in as many threads. On two cores everything competes for the same processor, so the parts add up:

    overhead = (step - boxes - raw) / raw
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

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
from mimo.types import Rollout, Task
from sandbox.rootfs import ensure_rootfs

ROOT = Path(__file__).parents[1]


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
    boxes = _replay_boxes(recorded)
    raw = _replay_engines(recorded)
    step = recorded.metrics["time/step_s"]
    total = sum(raw.values())
    print(f"\nrl-mixed step {args.step}: {step:.2f} s, {len(recorded.rollouts)} rollouts")
    print(f"  sandbox and verifier, replayed alone: {boxes:.2f} s")
    for name, seconds in raw.items():
        print(f"  raw {name}: {seconds:.2f} s")
    print(f"  orchestrator over raw engines: {(step - boxes - total) / total:+.1%}")


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


def _replay_boxes(recorded: Recorded) -> float:
    """Seconds for every box, tool call and verification of the step, side by side as in the run."""
    recipe = recorded.recipe
    open_box = partial(
        _open, open_local, ensure_rootfs(recorded.home / "cache"), "overhead", recorded.store.root / "tools"
    )
    verified: dict[tuple[str, str | None], bool] = {}
    diffs = _newest(recorded.home, "rl-mixed") / "diffs"

    def act(rollout: Rollout) -> None:
        task = recorded.tasks[rollout.task_id]
        harness = load_harness(rollout.harness, max_turns=recipe.harness.max_turns)
        with open_box(task, recorded.store.snapshot(task), {}) as box:
            for turn in rollout.contexts[0].turns:
                if turn.role == "assistant":
                    harness.act(turn.tool_calls[0] if turn.tool_calls else None, box, task)
            box.freeze()
            box.changes()

    def verify(rollout: Rollout) -> None:
        task = recorded.tasks[rollout.task_id]
        changes = read_changes(diffs, str(rollout.diff))
        load_domain(task.domain).verify(
            task, changes, recorded.store, lambda snapshot, mounts: open_box(task, snapshot, mounts)
        )

    todo = []
    for rollout in recorded.rollouts:
        if verified.setdefault((rollout.task_id, rollout.diff), True) is True and rollout.diff:
            todo.append(rollout)
            verified[(rollout.task_id, rollout.diff)] = False
    began = time.monotonic()
    with ThreadPoolExecutor(recipe.runtime.sandbox.concurrency) as pool:
        list(pool.map(act, recorded.rollouts))
    with ThreadPoolExecutor(recipe.runtime.sandbox.verifiers) as pool:
        list(pool.map(verify, todo))
    return time.monotonic() - began


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
            seconds = {"sampling": asyncio.run(_sample_raw(server.url, recorded))}
            write_batch(work / "batch", rl_sequences(_trained(recorded)), kind="rl", step=1)
            began = time.monotonic()
            trainer.train_step(work / "batch", LossSpec(kind="rl"), learning_rate=spec.learning_rate)
            seconds["optimiser step"] = time.monotonic() - began
            began = time.monotonic()
            trainer.export(work / "model")
            seconds["export"] = time.monotonic() - began
            began = time.monotonic()
            asyncio.run(_update_raw(server.url, recorded.model_dir, work / "model"))
            seconds["weight update"] = time.monotonic() - began
    return seconds


async def _update_raw(url: str, reference: Path, folder: Path) -> None:
    sampler = VllmSampler(url, 0, reference_dir=reference)
    await sampler.update_weights(folder, 1)
    await sampler.close()


async def _sample_raw(url: str, recorded: Recorded) -> float:
    """Every rollout's turns one after another, rollouts side by side, forced to the recorded lengths."""
    limits = httpx.Limits(max_connections=256, max_keepalive_connections=256)
    gate = asyncio.Semaphore(recorded.recipe.runtime.sandbox.concurrency)

    async def rollout(row: Rollout, client: httpx.AsyncClient) -> None:
        ids = recorded.payloads[row.rollout_id].token_ids.tolist()
        async with gate:
            for turn in row.contexts[0].turns:
                if turn.role != "assistant":
                    continue
                start, end = turn.span
                body = {
                    "token_ids": ids[:start],
                    "cache_salt": row.rollout_id,
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

    async with httpx.AsyncClient(base_url=url, timeout=600, limits=limits) as client:
        began = time.monotonic()
        await asyncio.gather(*(rollout(row, client) for row in recorded.rollouts if row.contexts))
        return time.monotonic() - began


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
