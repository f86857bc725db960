"""The trainer's step: DeepSpeed over raw torch, shared prefix over plain, segments over a dense mask.

    python benchmarks/trainer_step.py                      # a random 4M Llama, seconds
    python benchmarks/trainer_step.py --size 135m          # SmolLM2's shape, minutes

Every figure is the median of `--repeats` steps over one batch of groups (prompt 64, answers about 32, 8
rollouts); the modes take turns, so that a busy machine slows all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from mimo.backends.base import LossSpec, TrainerConfig
from mimo.training.attention import Segment, packed
from mimo.training.batch import TrainSequence, write_batch
from mimo.training.engine import load_model
from mimo.training.packing import Row, plan_rows
from mimo.training.trainer import start_trainer

SIZES = {
    "4m": {"hidden_size": 192, "intermediate_size": 512, "num_hidden_layers": 6, "vocab_size": 2048},
    "135m": {"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "vocab_size": 49152},
}
OPTIMIZER = {
    "name": "adamw",
    "learning_rate": 1e-5,
    "weight_decay": 0.0,
    "momentum": 0.95,
    "nesterov": True,
    "betas": [0.9, 0.95],
    "eps": 1e-8,
}
RL = LossSpec(kind="rl", positive_low=0.0, positive_high=1e9, negative_low=0.0, negative_high=1e9)


def write_model(folder: Path, size: str) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    heads = SIZES[size]["hidden_size"] // 64
    config = LlamaConfig(
        **SIZES[size], num_attention_heads=heads, num_key_value_heads=heads // 3, tie_word_embeddings=True
    )
    LlamaForCausalLM(config).save_pretrained(folder)


def sequences(vocabulary: int, groups: int) -> list[TrainSequence]:
    draw = np.random.default_rng(0)
    made = []
    for group in range(groups):
        prompt = draw.integers(0, vocabulary, 64)
        for k in range(8):
            ids = np.concatenate([prompt, draw.integers(0, vocabulary, int(draw.integers(24, 41)))])
            mask = np.arange(len(ids)) >= 64
            made.append(
                TrainSequence(
                    rollout_id=f"{group}-{k}",
                    token_ids=ids.astype(np.int32),
                    loss_mask=mask,
                    sampler_logprobs=np.where(mask, -np.log(vocabulary), 0).astype(np.float32),
                    advantages=np.where(mask, 1.0 if k % 2 else -1.0, 0).astype(np.float32),
                    loss_weight=0.001,
                    prefix_group=str(group),
                    prefix_len=64,
                )
            )
    return made


class RawStep:
    """The same rows and loss on plain torch; with `dense` through transformers' sdpa and a 4-D mask."""

    def __init__(self, model_dir: Path, items: list[TrainSequence], budget: int, *, dense: bool) -> None:
        self.model = load_model(model_dir)
        if dense:
            self.model.set_attn_implementation("sdpa")
        self.dense = dense
        self.items = items
        self.rows = [row for row in plan_rows(items, budget=budget, ranks=1)[0] if row is not None]
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-5, foreach=False)

    def mask(self, row: Row) -> torch.Tensor:
        size = len(row.token_ids)
        mask = torch.zeros(size, size, dtype=torch.bool)
        for start, end, prefix_start, prefix_end in row.segments:
            own = torch.ones(end - start, end - start, dtype=torch.bool).tril()
            mask[start:end, start:end] = own
            mask[start:end, prefix_start:prefix_end] = True
        return mask[None, None]

    def __call__(self) -> None:
        for row in self.rows:
            weights = torch.tensor(
                [
                    self.items[i].loss_weight * float(self.items[i].advantages[t])
                    for i, t in zip(row.owner, row.columns, strict=True)
                ]
            )
            with packed([Segment(*span) for span in row.segments]):
                hidden = self.model.base_model(
                    input_ids=torch.from_numpy(row.token_ids)[None],
                    position_ids=torch.from_numpy(row.position_ids)[None],
                    attention_mask=self.mask(row) if self.dense else None,
                    use_cache=False,
                ).last_hidden_state[0]
                logits = self.model.lm_head(hidden[torch.from_numpy(row.select)])
                chosen = torch.log_softmax(logits, -1).gather(-1, torch.from_numpy(row.targets)[:, None])[
                    :, 0
                ]
                (-(chosen * weights).sum()).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()


def measure(modes: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    seconds: dict[str, list[float]] = {name: [] for name in modes}
    for step in modes.values():
        step()
    for _ in range(repeats):
        for name, step in modes.items():
            began = time.perf_counter()
            step()
            seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(values) for name, values in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=SIZES, default="4m")
    parser.add_argument("--groups", type=int, default=4)
    parser.add_argument("--budget", type=int, default=2048, help="tokens of a micro-batch")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--zero-stage", type=int, choices=(0, 1, 2, 3), default=0)
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_model(root / "model", options.size)
        items = sequences(SIZES[options.size]["vocab_size"], options.groups)
        write_batch(root / "batch", items, kind="rl", step=0)
        config = TrainerConfig(
            model_dir=root / "model",
            compute_dtype="float32",
            optimizer=OPTIMIZER,
            grad_clip=1.0,
            seed=0,
            threads=options.threads,
            micro_batch_tokens=options.budget,
            zero_stage=options.zero_stage,
            log_file=root / "log",
        )
        with start_trainer(config) as trainer:

            def step(*, share_prefix: bool = True) -> None:
                trainer.train_step(root / "batch", RL, learning_rate=1e-5, share_prefix=share_prefix)

            found = measure(
                {
                    "raw torch": RawStep(root / "model", items, options.budget, dense=False),
                    "trainer": step,
                    "trainer, prefix per rollout": lambda: step(share_prefix=False),
                    "raw torch, dense mask": RawStep(root / "model", items, options.budget, dense=True),
                },
                options.repeats,
            )
            start = dict(trainer.start_seconds)
    plain = sum(len(item.token_ids) for item in items)
    shared = plain - 64 * (len(items) - options.groups)
    report = {
        "size": options.size,
        "zero_stage": options.zero_stage,
        "threads": options.threads,
        "tokens": {"plain": plain, "shared": shared, "ratio": plain / shared},
        "start_s": start,
        "step_s": found,
        "trainer over raw torch": found["trainer"] / found["raw torch"],
        "prefix per rollout over shared": found["trainer, prefix per rollout"] / found["trainer"],
        "dense mask over segments": found["raw torch, dense mask"] / found["raw torch"],
    }
    json.dump(report, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
