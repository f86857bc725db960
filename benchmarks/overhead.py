"""Time per stage of a finished run, and what the orchestrator adds to one rl-mixed step.

    python benchmarks/overhead.py HOME [--step N]

HOME is the MIMO_HOME of a finished run of recipes/pro.yaml. The step's recorded token ids are replayed
through raw calls at the run's concurrency: one HTTP request a turn straight to vLLM (as many tokens, nothing
else), the turn's tool call in a box, the verifier; then one DeepSpeed step on the same batch, one export, one
reload. Sampling and boxes run side by side there as in the run; each is replayed alone too:

    overhead = (step - raw rollouts with boxes - optimiser step - export - update)
               / (raw sampling alone + optimiser step + export + update)

Engines and boxes are warm: an engine's first call, which is slower, does not count.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path

import httpx
from recorded_step import Recorded, ReplayedBoxes, read_step, trained_rollouts

from mimo.backends.base import LossSpec, SamplerConfig, TrainerConfig
from mimo.backends.vllm import VllmSampler, start_server
from mimo.stages.school import rl_sequences
from mimo.training.batch import write_batch
from mimo.training.trainer import start_trainer
from mimo.types import Rollout
from sandbox.base import Sandbox

ALONE = "sampling alone"
TOGETHER = "rollouts, boxes included"


def main() -> None:
    """Print the stages' times and the parts of one step."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("home", type=Path)
    options.add_argument("--profile", default="smoke")
    options.add_argument("--step", type=int, default=2)
    args = options.parse_args()
    _print_stages(args.home)
    recorded = read_step(args.home, args.profile, args.step)
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
    share = added / (alone + sum(raw.values()))
    print(f"  orchestrator: {added:+.2f} s, {share:+.1%} of the raw engine calls")


def _print_stages(home: Path) -> None:
    for path in sorted((home / "store").glob("*/*/manifest.json"), key=lambda item: item.stat().st_mtime):
        manifest = json.loads(path.read_text())
        print(f"{manifest['stage']:20s} {manifest['wall_s']:8.1f} s  ({manifest['planned']} units)")


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
            write_batch(work / "batch", rl_sequences(trained_rollouts(recorded)), kind="rl", step=1)
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

    async def talk(row: Rollout, box: Sandbox | None) -> None:
        ids = recorded.payloads[row.rollout_id].token_ids.tolist()
        for turn in row.contexts[0].turns:
            if turn.role == "assistant" and url is not None:
                await _sample(client, recorded, ids, turn.span, salt)
            if turn.role == "assistant" and box is not None:
                await held.call(row, turn, box)

    async def rollout(row: Rollout) -> None:
        async with gate:
            if boxes:
                async with held.box(row) as box:
                    await talk(row, box)
                    await held.freeze(box)
                await held.verify(row)
            else:
                await talk(row, None)

    with ReplayedBoxes(recorded) as held:
        async with httpx.AsyncClient(base_url=url or "", timeout=600, limits=limits) as client:
            began = time.monotonic()
            await asyncio.gather(*(rollout(row) for row in recorded.rollouts if row.contexts))
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


if __name__ == "__main__":
    main()
