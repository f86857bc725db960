"""DeepSpeed's configuration for our own training loop, and the check of every key in it (imports no torch).

DeepSpeed ignores a top-level key that it does not know, so a misspelt one changes nothing and says nothing:
the keys are checked here (`gradient_cliping` is an error with a suggestion). What the loop itself decides
(batch sizes, accumulation, clipping, precision, stage) cannot be set from outside.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import cast

from mimo.backends.base import TrainerConfig
from mimo.errors import RecipeError
from mimo.types import Json

OWNED = {
    "train_batch_size": "the batch folder says what a step trains on",
    "train_micro_batch_size_per_gpu": "set runtime.trainer.micro_batch_tokens",
    "gradient_accumulation_steps": "set runtime.trainer.micro_batch_tokens",
    "managed_gradient_accumulation": "micro-batches are accumulated by our loop",
    "gradient_clipping": "set the stage's grad_clip",
    "optimizer": "set the stage's optimizer",
    "scheduler": "the learning rate of every step comes from the stage",
    "fp16": "float16 needs loss scaling, which is not supported; use bfloat16",
    "bf16": "set runtime.dtype",
    "bfloat16": "set runtime.dtype",
    "torch_autocast": "set runtime.dtype",
    "pipeline": "pipeline parallelism is not supported",
}
"""Keys of DeepSpeed that our loop owns, and what to set instead."""

_NAMES = """
activation_checkpointing aio checkpoint comms_logger communication_data_type compile csv_monitor data_types
disable_allgather dump_state elasticity expert_parallel flops_profiler gradient_allreduce_op
gradient_predivide_factor hybrid_engine keep_in_fp32_modules log_level memory_breakdown nebula
prescale_gradients seq_parallel_communication_data_type sparse_gradients steps_per_print tensor_parallel
tensorboard timers use_data_before_expert_parallelism use_node_local_storage wall_clock_breakdown wandb
weight_quantization zero_allow_untested_optimizer zero_force_ds_cpu_optimizer zero_optimization
"""
PASSED = frozenset(_NAMES.split())
"""Top-level keys of DeepSpeed 0.19 that may be given in `runtime.trainer.deepspeed`."""

OPTIMIZER_KEYS = frozenset({"name", "learning_rate", "weight_decay", "momentum", "nesterov", "betas", "eps"})


def check_keys(extra: Mapping[str, Json]) -> None:
    """Refuse keys that DeepSpeed would ignore, and those that our loop owns; all of them at once.

    Raises:
        RecipeError: with a suggestion per key.
    """
    problems = []
    for key in extra:
        if key in OWNED:
            problems.append(f"{key}: not yours to set: {OWNED[key]}")
        elif key not in PASSED:
            close = difflib.get_close_matches(key, sorted(PASSED | set(OWNED)), n=1)
            guess = f" (did you mean {close[0]}?)" if close else ""
            problems.append(f"{key}: DeepSpeed has no such key and would ignore it{guess}")
    if problems:
        raise RecipeError(
            "runtime.trainer.deepspeed: " + "; ".join(problems), hint="known: " + ", ".join(sorted(PASSED))
        )


def check_config(config: TrainerConfig) -> None:
    """Refuse what the trainer cannot do, before anything starts.

    Raises:
        RecipeError: unknown DeepSpeed or optimiser key, unknown optimiser, muon with ZeRO, sizes below one.
    """
    check_keys(config.deepspeed)
    zero = config.deepspeed.get("zero_optimization")
    if isinstance(zero, dict) and "stage" in zero:
        raise RecipeError("runtime.trainer.deepspeed.zero_optimization.stage: set runtime.trainer.zero_stage")
    unknown = sorted(set(config.optimizer) - OPTIMIZER_KEYS)
    if unknown:
        raise RecipeError(
            f"optimizer: unknown keys {', '.join(unknown)}",
            hint=f"known: {', '.join(sorted(OPTIMIZER_KEYS))}",
        )
    name = config.optimizer.get("name")
    if name not in ("adamw", "muon"):
        raise RecipeError(f"optimizer.name is {name!r}; known: adamw, muon")
    if name == "muon" and config.zero_stage > 0:
        raise RecipeError(
            f"optimizer muon with runtime.trainer.zero_stage {config.zero_stage}: ZeRO flattens the matrices "
            "that muon orthogonalises",
            hint="use zero_stage 0, or adamw",
        )
    if config.num_processes < 1 or config.micro_batch_tokens < 2 or config.grad_clip < 0:
        raise RecipeError(
            f"trainer: num_processes {config.num_processes}, micro_batch_tokens {config.micro_batch_tokens}, "
            f"grad_clip {config.grad_clip}; expected at least 1, 2, 0"
        )


def deepspeed_config(config: TrainerConfig, *, world_size: int) -> dict[str, Json]:
    """The dictionary for `deepspeed.initialize`; one micro-batch is one packed row.

    Stage 0 keeps float32 weights and casts in the forward pass when the compute dtype is bfloat16; stages 1
    to 3 keep bfloat16 weights with float32 master copies split over the ranks.
    """
    check_config(config)
    built: dict[str, Json] = {
        "train_batch_size": world_size,
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "managed_gradient_accumulation": False,
        "gradient_clipping": config.grad_clip,
        "steps_per_print": 1_000_000_000,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "zero_optimization": {"stage": config.zero_stage, "overlap_comm": False},
    }
    if config.compute_dtype == "bfloat16" and config.zero_stage > 0:
        built["bf16"] = {"enabled": True}
        built["data_types"] = {"grad_accum_dtype": "fp32"}
    return _merged(built, config.deepspeed)


def _merged(base: Mapping[str, Json], extra: Mapping[str, Json]) -> dict[str, Json]:
    merged = dict(base)
    for key, value in extra.items():
        below = merged.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            merged[key] = cast(Json, _merged(below, value))
        else:
            merged[key] = value
    return merged
