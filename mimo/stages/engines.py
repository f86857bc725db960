"""From the recipe to engines: the policy's folder, the trainer's configuration, the house of rollouts."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from mimo.backends.base import TrainerConfig
from mimo.backends.devices import pick_device
from mimo.domains import load_domain
from mimo.harnesses import load_harness
from mimo.harnesses.renderer import Renderer
from mimo.recipe.models import Recipe
from mimo.recipe.training_sections import Optimizer
from mimo.rollouts.house import House, RolloutSizes
from mimo.stages.base import StageContext
from mimo.stages.params import policy_params
from mimo.stages.tasks import box_opener, task_store


def base_policy(ctx: StageContext) -> Path:
    """The folder of the recipe's starting policy, made once in the shared cache."""
    from mimo.backends.policies import materialise_policy

    policy = ctx.recipe.policy
    digest = hashlib.sha256(json.dumps(policy_params(ctx.recipe), sort_keys=True).encode()).hexdigest()[:16]
    folder = ctx.cache / "policies" / digest
    materialise_policy(
        policy.source,
        folder,
        tokenizer=policy.tokenizer,
        init=None if policy.init is None else policy.init.model_dump(),
        keep_layers=policy.keep_layers,
        drop_layers=policy.drop_layers,
        dtype=policy.dtype,
    )
    return folder


def trainer_config(
    ctx: StageContext, model_dir: Path, optimizer: Optimizer, grad_clip: float
) -> TrainerConfig:
    """The trainer this stage launches on `model_dir`."""
    runtime = ctx.recipe.runtime.trainer
    return TrainerConfig(
        model_dir=model_dir,
        compute_dtype=ctx.recipe.policy.dtype,
        optimizer=optimizer.model_dump(mode="json"),
        grad_clip=grad_clip,
        seed=ctx.recipe.seed,
        device=pick_device(runtime.device),
        num_processes=runtime.num_processes,
        hostfile=None if runtime.hostfile is None else Path(runtime.hostfile),
        zero_stage=runtime.zero_stage,
        micro_batch_tokens=runtime.micro_batch_tokens,
        recompute=runtime.recompute,
        threads=runtime.threads,
        start_timeout_s=runtime.start_timeout_s,
        log_file=ctx.scratch.parent / "trainer.log",
        deepspeed=runtime.deepspeed,
    )


@contextmanager
def open_house(ctx: StageContext, model_dir: Path, policy: str) -> Iterator[House]:
    """The house of this stage's rollouts, with its threads; `model_dir` gives the tokenizer."""
    recipe = ctx.recipe
    runtime = recipe.runtime.sandbox
    boxes = runtime.concurrency * max(1, len(runtime.hosts))
    threads = boxes + runtime.verifiers
    pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="box")
    try:
        yield House(
            store=task_store(ctx),
            renderer=Renderer(model_dir),
            sizes=rollout_sizes(recipe),
            open_box=box_opener(ctx),
            domain=load_domain,
            harness=lambda name: load_harness(name, max_turns=recipe.harness.max_turns),
            pool=pool,
            boxes=asyncio.Semaphore(boxes),
            verifiers=asyncio.Semaphore(runtime.verifiers),
            policy=policy,
        )
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def rollout_sizes(recipe: Recipe) -> RolloutSizes:
    """Token sizes and the sampling distribution of a rollout."""
    return RolloutSizes(
        context_tokens=recipe.policy.context_tokens,
        turn_tokens=recipe.sampling.turn_tokens,
        observation_tokens=recipe.harness.observation_tokens,
        max_turns=recipe.harness.max_turns,
        temperature=recipe.sampling.temperature,
        top_p=recipe.sampling.top_p,
    )
