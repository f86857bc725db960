"""Time and memory of METHOD 7's steps 1 to 10 over batch size, beside TRL's and verl's advantage code.

    python benchmarks/advantages.py [--peers DIR] [--groups 98 392 1568] [--tokens 10000] [--threads 2]

DIR holds the wheels that `pip download --no-deps trl verl` fetched. Their functions are read out of the
wheels and run as published; importing the packages would need ray, datasets and a dozen more. Each case runs
in a process of its own; times are the best of the repeats, memory is the peak of the process, torch included.

Cases: `mimo` steps 1 to 10 over plain, GRS and GAR groups with leaks, failures, length penalty and three
flagged spans a rollout, then every token advantage, one micro-batch of a group at a time. `centre` the part
that the others have: rewards minus the group's mean. `trl` GRPOTrainer's advantages (scale_rewards none), per
rollout. `verl-loop`, `verl-vectorized` its two GRPO estimators without std, per token; each is given float32
token rewards and a float32 mask [rollouts, tokens], which it needs.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import resource
import subprocess
import sys
import time
import zipfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mimo.algo.batch import METHODS, Batch, Settings, TokenPenalty
from mimo.algo.group_advantages import group_advantages
from mimo.algo.length_penalty import LengthPenalty
from mimo.algo.order import ordered_advantages
from mimo.algo.spans import spans_within, token_advantages

GROUP_SIZE = 16
CASES = ("mimo", "centre", "trl", "verl-loop", "verl-vectorized")
PEERS = {
    "trl": ("trl", "trl/trainer/grpo_trainer.py"),
    "verl-loop": ("verl", "verl/trainer/ppo/core_algos.py"),
    "verl-vectorized": ("verl", "verl/trainer/ppo/core_algos.py"),
}


def rewards_of(groups: int) -> tuple[Tensor, Tensor]:
    """(group, 0/1 rewards) [rollouts], the same for every case."""
    random = torch.Generator().manual_seed(1)
    group = torch.arange(groups).repeat_interleave(GROUP_SIZE)
    return group, (torch.rand(len(group), generator=random) < 0.6).float()


def mimo_batch(groups: int, tokens: int) -> Batch:
    group, reward = rewards_of(groups)
    count = len(group)
    random = torch.Generator().manual_seed(2)
    unit = [torch.rand(count, generator=random, dtype=torch.float64) for _ in range(7)]
    starts = (torch.rand(3 * count, generator=random) * (tokens - 200)).long()
    spans = torch.stack([torch.arange(count).repeat_interleave(3), starts, starts + 150], dim=1)
    return Batch(
        group=group,
        valid=unit[0] > 0.01,
        passed=reward > 0,
        leak=unit[1] < 0.02,
        reward=reward.double(),
        solution=unit[2],
        behavior=unit[3],
        quality=unit[4].clamp(min=0.05),
        length=tokens * (0.5 + unit[5]),
        tokens=torch.full((count,), tokens),
        spans=spans,
    )


def run_mimo(groups: int, tokens: int) -> dict[str, float]:
    batch = mimo_batch(groups, tokens)
    penalty = LengthPenalty(0.2, 0.0, 1.0, 1.5, 30.0, 0.5)
    settings = Settings(torch.arange(groups) % len(METHODS), 1.5, False, True, 0.1, penalty)
    began, worked = time.perf_counter(), time.process_time()
    result = ordered_advantages(
        batch,
        settings,
        aggregation="prompt-mean",
        token_penalty=TokenPenalty(2.0, 2.0, 0.5, False),
        spread_epsilon=1e-9,
        length_position="reward",
        total=lambda local: local,
    ).tokens
    ordered = time.perf_counter()
    clean, flagged = result.clean.float(), result.flagged.float()
    written = 0
    for first in range(0, len(batch.group), GROUP_SIZE):
        chosen = torch.arange(first, first + GROUP_SIZE)
        spans = spans_within(result.spans, chosen)
        written += len(token_advantages(clean[chosen], flagged[chosen], batch.tokens[chosen], spans))
    assert written == len(batch.group) * tokens
    used = time.process_time() - worked
    return {"order_s": ordered - began, "seconds": time.perf_counter() - began, "cpu_s": used}


def run_centre(groups: int, tokens: int) -> dict[str, float]:
    group, reward = rewards_of(groups)
    valid = torch.ones_like(group, dtype=torch.bool)
    began = time.perf_counter()
    found = group_advantages(reward, valid, group, groups)
    return {"seconds": time.perf_counter() - began, "check": float(found.square().sum())}


def published(wheel: Path, path: str) -> ast.Module:
    with zipfile.ZipFile(wheel) as archive:
        return ast.parse(archive.read(path))


def functions(module: ast.Module, names: Sequence[str], space: dict[str, Any]) -> None:
    """Define the named functions in `space`, without the decorators that register them in their package."""
    found = [node for node in module.body if isinstance(node, ast.FunctionDef) and node.name in names]
    assert {node.name for node in found} == set(names), f"the wheel has not all of {names}"
    for node in found:
        node.decorator_list = []
    exec(compile(ast.Module(found, []), "published", "exec"), space)


def run_verl(groups: int, tokens: int, wheel: Path, name: str) -> dict[str, float]:
    group, reward = rewards_of(groups)
    space: dict[str, Any] = {"torch": torch, "np": np, "os": os, "defaultdict": defaultdict}
    space["get_device_name"] = lambda: "cpu"
    helpers = published(wheel, "verl/utils/groupwise.py")
    names = [node.name for node in helpers.body if isinstance(node, ast.FunctionDef)]
    functions(helpers, names, space)
    functions(published(wheel, PEERS["verl-loop"][1]), [name], space)
    scores = torch.zeros(len(group), tokens)
    scores[:, -1] = reward
    mask = torch.ones(len(group), tokens)
    began = time.perf_counter()
    found, _ = space[name](scores, mask, group.numpy(), norm_adv_by_std_in_grpo=False)
    return {"seconds": time.perf_counter() - began, "check": float(found[:, 0].square().sum())}


def run_trl(groups: int, wheel: Path) -> dict[str, float]:
    """The statements of GRPOTrainer that turn rewards into advantages, from the published method."""
    module = published(wheel, PEERS["trl"][1])
    method = next(
        node
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef) and node.name == "_generate_and_score_completions"
    )
    texts = [ast.unparse(node) for node in method.body]
    first = next(at for at, text in enumerate(texts) if text.startswith("unscorable_mask ="))
    last = next(at for at, text in enumerate(texts) if text.startswith("advantages = torch.nan_to_num"))
    code = compile(ast.Module(method.body[first : last + 1], []), "published", "exec")
    space: dict[str, Any] = {"torch": torch}
    functions(published(wheel, "trl/trainer/utils.py"), ["nanstd"], space)
    trainer = SimpleNamespace(
        multi_objective_aggregation="sum_then_normalize",
        reward_weights=torch.ones(1),
        scale_rewards="none",
        reward_funcs=[None],
    )
    _, reward = rewards_of(groups)
    space |= {
        "self": trainer,
        "rewards_per_func": reward[:, None],
        "num_generations": GROUP_SIZE,
        "device": "cpu",
    }
    began = time.perf_counter()
    exec(code, space)
    return {"seconds": time.perf_counter() - began, "check": float(space["advantages"].square().sum())}


def case(name: str, groups: int, tokens: int, peers: Path | None) -> dict[str, float]:
    runs: dict[str, Callable[[], dict[str, float]]] = {
        "mimo": lambda: run_mimo(groups, tokens),
        "centre": lambda: run_centre(groups, tokens),
    }
    if name in runs:
        return runs[name]()
    assert peers is not None
    wheel = next(peers.glob(f"{PEERS[name][0]}-*.whl"))
    if name == "trl":
        return run_trl(groups, wheel)
    kind = "vectorized_" if name == "verl-vectorized" else ""
    return run_verl(groups, tokens, wheel, f"compute_grpo_{kind}outcome_advantage")


def in_process(name: str, groups: int, options: argparse.Namespace) -> dict[str, float]:
    """The case in a process of its own: best times of the repeats, peak resident memory."""
    command = [sys.executable, __file__, "--case", name, "--groups", str(groups)]
    for option in ("tokens", "repeats", "threads", "peers"):
        if getattr(options, option) is not None:
            command += [f"--{option}", str(getattr(options, option))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} with {groups} groups failed:\n{done.stderr}")
    return json.loads(done.stdout)


def measure(options: argparse.Namespace) -> None:
    torch.set_num_threads(options.threads)
    arguments = (options.case, options.groups[0], options.tokens, options.peers)
    found = [case(*arguments) for _ in range(options.repeats)]
    best = {name: min(one[name] for one in found) for name in found[0]}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({**best, "peak_mb": peak}))


def table(options: argparse.Namespace) -> None:
    names = CASES if options.peers else CASES[:2]
    print(f"threads {options.threads}; load average {os.getloadavg()[0]:.1f}; torch {torch.__version__}")
    if options.peers:
        print("peers:", ", ".join(sorted(wheel.name for wheel in options.peers.glob("*.whl"))))
    print(
        "| groups | rollouts | tokens | mimo, order alone s | its CPU s in all | "
        + " | ".join(f"{name} s | MB" for name in names)
        + " |"
    )
    print("|" + "---:|" * (5 + 2 * len(names)))
    for groups in options.groups:
        rows = {name: in_process(name, groups, options) for name in names}
        checks = [row["check"] for row in rows.values() if "check" in row]
        assert max(checks) - min(checks) <= 1e-4 * max(checks), f"the cases disagree: {rows}"
        cells = " | ".join(f"{row['seconds']:.4f} | {row['peak_mb']:.0f}" for row in rows.values())
        size = groups * GROUP_SIZE
        head = f"| {groups} | {size} | {size * options.tokens / 1e6:.0f}M | "
        head += f"{rows['mimo']['order_s']:.4f} | {rows['mimo']['cpu_s']:.4f} | "
        print(f"{head}{cells} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Time and memory of the advantages over batch size.")
    parser.add_argument("--groups", type=int, nargs="+", default=[98, 196, 392, 784, 1568])
    parser.add_argument("--tokens", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--peers", type=Path, help="folder with the wheels of trl and verl")
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    (measure if options.case else table)(options)


if __name__ == "__main__":
    main()
