"""One rank of the training engine: the model under DeepSpeed, one row at a time, one update at the end."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from mimo.backends.base import TrainerConfig
from mimo.backends.deepspeed import deepspeed_config
from mimo.backends.policies import TIED_MARK
from mimo.errors import EngineFailed
from mimo.training import attention
from mimo.training.optimizers import build_optimizer
from mimo.training.packing import Row
from mimo.training.policy import Policy

IDLE_LIMIT = timedelta(days=30)
"""Ranks wait this long for the next command: a step of rollouts may take hours."""


class Engine:
    """The policy, its optimiser and its place among the ranks. Made once per process by `Engine(config)`."""

    def __init__(self, config: TrainerConfig, *, on_progress: Callable[[], None]) -> None:
        self.config = config
        self.on_progress = on_progress
        torch.manual_seed(config.seed)
        deepspeed = _import_deepspeed()
        deepspeed.init_distributed(
            dist_backend="nccl" if config.device == "cuda" else "gloo", timeout=IDLE_LIMIT, verbose=False
        )
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        self.control: Any = dist.new_group(backend="gloo", timeout=IDLE_LIMIT)
        self.device = torch.device(
            f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if config.device == "cuda" else "cpu"
        )
        self.model = load_model(config.model_dir, recompute=config.recompute)
        casts = config.compute_dtype == "bfloat16" and config.zero_stage == 0
        self._policy = Policy(self.model, autocast=torch.bfloat16 if casts else None)
        self.optimizer = build_optimizer(self.model, config.optimizer)
        self.deepspeed, *_ = deepspeed.initialize(
            model=self._policy,
            optimizer=self.optimizer,
            config=deepspeed_config(config, world_size=self.world_size),
            dist_init_required=False,
        )
        self.steps = 0
        self._gradient_ok = True
        self.model.get_input_embeddings().register_forward_hook(self._watch_gradient)

    def logprobs(self, row: Row, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
        """(logprobs, entropies) of the row's targets: [trained] float32; call it inside `packed`."""

        def put(array: Any) -> torch.Tensor:
            return torch.from_numpy(array).to(self.device)

        result: tuple[torch.Tensor, torch.Tensor] = self.deepspeed(
            put(row.token_ids)[None],
            put(row.position_ids)[None],
            put(row.select),
            put(row.targets),
            temperature,
        )
        return result

    def backward(self, loss: torch.Tensor) -> bool:
        """Add the gradient of `loss` (this rank's part of a sum over ranks); False when it is not finite."""
        self._gradient_ok = True
        self.deepspeed.backward(loss * self.world_size)  # DeepSpeed averages over ranks; the loss is a sum
        return self._gradient_ok

    def step(self, learning_rate: float) -> float:
        """Clip, update, clear the gradients; the norm of the global gradient before clipping.

        Raises:
            EngineFailed: the norm is not finite (in stage 0 nothing was changed then).
        """
        for group in self.deepspeed.optimizer.param_groups:
            group["lr"] = learning_rate
        norm = self._reduced_norm() if self.config.zero_stage == 0 else None
        if norm is not None:
            _check_norm(norm)
        self.deepspeed.step()
        if norm is None:
            norm = float(self.deepspeed.get_global_grad_norm())
            _check_norm(norm)
        self.steps += 1
        return norm

    def drop_gradients(self) -> None:
        """Forget what `backward` added (a step without signal leaves weights and optimiser alone)."""
        if self.config.zero_stage == 0:
            self.deepspeed.zero_grad()
        else:
            self.deepspeed.optimizer.zero_grad()

    def give_back_memory(self) -> None:
        """Return to the GPU what a step took and holds no more: sampler and teachers may share it."""
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def sum_over_ranks(self, values: torch.Tensor) -> torch.Tensor:
        """The elementwise sum of a CPU tensor over all ranks."""
        if self.world_size > 1:
            dist.all_reduce(values, group=self.control)
        return values

    def max_over_ranks(self, values: torch.Tensor) -> torch.Tensor:
        """The elementwise maximum of a CPU tensor over all ranks."""
        if self.world_size > 1:
            dist.all_reduce(values, op=dist.ReduceOp.MAX, group=self.control)
        return values

    def gather_sample(self, values: torch.Tensor) -> list[torch.Tensor]:
        """The 1-D float32 tensors of all ranks, which may differ in length."""
        if self.world_size == 1:
            return [values]
        length = int(self.max_over_ranks(torch.tensor([len(values)]))[0])
        padded = torch.full((length,), float("nan"))
        padded[: len(values)] = values
        parts = [torch.empty(length) for _ in range(self.world_size)]
        dist.all_gather(parts, padded, group=self.control)
        return [part[~part.isnan()] for part in parts]

    def wait_for_all(self) -> None:
        """A barrier of all ranks."""
        if self.world_size > 1:
            dist.barrier(group=self.control)

    def broadcast_text(self, text: str | None) -> str:
        """Rank 0's text, on every rank (no pickle: its UTF-8 bytes)."""
        if self.world_size == 1:
            assert text is not None
            return text
        data = torch.tensor(list((text or "").encode()), dtype=torch.uint8)
        size = torch.tensor([len(data)])
        dist.broadcast(size, src=0, group=self.control)
        if self.rank:
            data = torch.empty(int(size), dtype=torch.uint8)
        dist.broadcast(data, src=0, group=self.control)
        return bytes(data.tolist()).decode()

    def full_parameter(self, parameter: torch.nn.Parameter) -> torch.Tensor:
        """The whole tensor on the CPU; where ZeRO 3 splits it, every rank must ask in the same order."""
        if not hasattr(parameter, "ds_id"):
            return parameter.detach().to("cpu")
        from deepspeed import zero

        with zero.GatheredParameters([parameter]):
            return parameter.detach().to("cpu", copy=True)

    def _reduced_norm(self) -> float:
        """Sum the gradients over the ranks ourselves, so that the norm is known before the update."""
        self.deepspeed.enable_backward_allreduce = False
        if self.world_size > 1:
            self.deepspeed.buffered_allreduce_fallback()
        grads = [item.grad for item in self.model.parameters() if item.grad is not None]
        return float(torch.nn.utils.get_total_norm(grads)) if grads else 0.0

    def _watch_gradient(self, _module: torch.nn.Module, _inputs: Any, output: torch.Tensor) -> None:
        """A gradient that reaches the embeddings has passed every layer: check it there, once per row."""
        if output.requires_grad:
            output.register_hook(self._check_gradient)  # type: ignore[no-untyped-call]

    def _check_gradient(self, gradient: torch.Tensor) -> None:
        self._gradient_ok = self._gradient_ok and bool(torch.isfinite(gradient).all())


def load_model(model_dir: Path, *, recompute: bool = False) -> Any:
    """The causal language model in `model_dir`, float32, in training mode, tied again if it was so before.

    With `recompute` a layer keeps its input for the backward pass, and nothing else.

    Raises:
        EngineFailed: it cannot be read, lacks tensors, or its attention cannot be packed.
    """
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    attention.register()
    try:
        model, told = AutoModelForCausalLM.from_pretrained(
            model_dir,
            dtype=torch.float32,
            attn_implementation=attention.NAME,
            local_files_only=True,
            output_loading_info=True,
        )
    except (OSError, ValueError) as error:
        raise EngineFailed(f"{model_dir}: cannot be loaded for training: {error}") from error
    if told["missing_keys"] or told.get("mismatched_keys"):
        raise EngineFailed(
            f"{model_dir}: tensors missing {sorted(told['missing_keys'])}, "
            f"of another shape {sorted(map(str, told.get('mismatched_keys') or ()))}"
        )
    _check_attention(model, model_dir)
    _tie_again(model, model_dir)
    for name, parameter in model.named_parameters():
        if ".router." in name or name.endswith("mlp.gate.weight"):
            parameter.requires_grad_(False)
    if recompute:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model.train()


def _check_attention(model: Any, model_dir: Path) -> None:
    kinds = set(getattr(model.config.get_text_config(), "layer_types", None) or ["full_attention"])
    other = kinds - {"full_attention", "sliding_attention"}
    if other:
        raise EngineFailed(f"{model_dir}: layers of kind {', '.join(sorted(other))} cannot be packed")


def _tie_again(model: Any, model_dir: Path) -> None:
    if not getattr(model.config, TIED_MARK, False):
        return
    head, embedding = model.get_output_embeddings().weight, model.get_input_embeddings().weight
    if not torch.equal(head, embedding):
        raise EngineFailed(f"{model_dir}: marked as tied, but head and embedding differ")
    model.config.tie_word_embeddings = True
    model.get_output_embeddings().weight = embedding


def _check_norm(norm: float) -> None:
    if not math.isfinite(norm):
        raise EngineFailed(f"the gradient norm of the step is {norm}", hint="the weights before it are kept")


def _import_deepspeed() -> Any:
    """DeepSpeed (and transformers' models) without what they pull in only to look whether it is there.

    mlflow and scikit-learn are left out: half of the import time, and joblib's semaphores in /dev/shm. So is
    DeepSpeed's shared-memory kernel, which is compiled at first use and leaves 69 MB per rank there; gloo
    does its work.
    """
    unused = [name for name in ("mlflow", "sklearn") if name not in sys.modules]
    for name in unused:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        import deepspeed
        import transformers.generation
        import transformers.models.auto.modeling_auto  # noqa: F401
    finally:
        for name in unused:
            del sys.modules[name]
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    return deepspeed
