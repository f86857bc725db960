"""A vLLM server under a guardian: its command line, its environment, and the wait until it answers."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import httpx

from mimo.backends.base import SamplerConfig
from mimo.backends.guardian import Guarded
from mimo.backends.malloc import with_huge_pages
from mimo.errors import EngineFailed, MachineLacks

NEEDED_ROUTES = (
    "/inference/v1/generate",
    "/pause",
    "/resume",
    "/collective_rpc",
    "/reset_prefix_cache",
    "/update_weight_version",
    "/weight_info",
)
POLL_S = 0.25
PREFILL_TOKENS = 8192
MODEL_NAME = "policy"
Progress = Callable[[float, str], None]
"""Called about once a second while a server starts: seconds so far, and the last line of its log."""


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that answers; a context manager. `guarded` is None for a user's server, which stays open."""

    url: str
    model_dir: Path
    log_file: Path | None
    start_seconds: float
    guarded: Guarded | None

    def alive(self) -> bool:
        """Whether the server's process runs and answers its health route within 5 s."""
        if self.guarded is not None and self.guarded.poll() is not None:
            return False
        return _healthy(self.url, timeout_s=5.0)

    def close(self) -> None:
        """End the server's whole tree and what it left in shared memory. Idempotent."""
        if self.guarded is not None:
            self.guarded.close()

    def __enter__(self) -> RunningServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def start_server(config: SamplerConfig, *, progress: Progress | None = None) -> RunningServer:
    """A server of `config.model_dir` that has generated once; with `config.url`, the user's, checked.

    The owner is the calling process: when it ends, however, the server's tree ends too.

    Raises:
        MachineLacks: the port is taken, or the user's server lacks a route.
        EngineFailed: it died or did not answer in time; the message carries the end of its log.
    """
    if config.url is not None:
        return _attach(config, config.url.rstrip("/"))
    started = time.monotonic()
    port = _port(config)
    url = f"http://127.0.0.1:{port}"
    log_file = config.log_file or Path(os.devnull)
    guarded = Guarded.start(command(config, port), env=environment(config, os.environ), log_file=log_file)
    try:
        _wait_healthy(guarded, url, config, progress)
        _first_generation(url, config)
    except BaseException:
        guarded.close()
        raise
    return RunningServer(url, config.model_dir, config.log_file, time.monotonic() - started, guarded)


def command(config: SamplerConfig, port: int) -> list[str]:
    """The server's command line. Sampling defaults of the model's folder do not count: requests say all."""
    words: dict[str, object] = {
        "--model": config.model_dir,
        "--served-model-name": MODEL_NAME,
        "--host": "127.0.0.1",
        "--port": port,
        "--dtype": config.dtype,
        "--max-model-len": config.max_model_len,
        "--max-num-seqs": config.max_num_seqs,
        "--max-logprobs": -1,
        "--logprobs-mode": "processed_logprobs",
        "--generation-config": "vllm",
        "--uvicorn-log-level": "warning",
        "--tensor-parallel-size": config.tensor_parallel,
        "--data-parallel-size": config.data_parallel,
    }
    flags = ["--enable-scale-out", "--disable-log-stats", "--disable-uvicorn-access-log"]
    if config.device == "cpu":
        # A per-request seed kills the CPU engine as soon as a prefill is chunked; see docs/engines.md.
        words["--max-num-batched-tokens"] = max(PREFILL_TOKENS, config.max_model_len)
        words["--kv-cache-memory-bytes"] = int(config.kv_cache_gib * 2**30)
        flags += ["--no-enable-chunked-prefill", "--enforce-eager"]
    else:
        words["--gpu-memory-utilization"] = config.gpu_memory_utilization
        flags += ["--enable-sleep-mode"]
    pairs = [part for key, value in words.items() for part in (key, str(value))]
    return [sys.executable, "-m", "vllm.entrypoints.openai.api_server", *pairs, *flags, *config.extra_args]


def environment(config: SamplerConfig, base: Mapping[str, str]) -> dict[str, str]:
    """The server's environment: offline, no telemetry, control routes open (on the loopback address only)."""
    env = dict(base) | {
        "HF_HUB_OFFLINE": "1",
        "VLLM_SERVER_DEV_MODE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_DISABLE_LOG_LOGO": "1",
        "VLLM_LOGGING_COLOR": "0",
        "PYTHONUNBUFFERED": "1",
    }
    env.pop("VLLM_RPC_BASE_PATH", None)  # sockets belong in the folder that the guardian removes
    if config.device == "cpu":
        env["VLLM_CPU_OMP_THREADS_BIND"] = thread_binding(config, sorted(os.sched_getaffinity(0)))
        # Two small functions of the sampler would be compiled for 20 s at the first request of a machine.
        env["TORCHDYNAMO_DISABLE"] = "1"
        # Threads that wait must not burn the cores that the trainer or the sandboxes need.
        env.setdefault("OMP_WAIT_POLICY", "passive")
        env["VLLM_TARGET_DEVICE"] = "cpu"
        env = with_huge_pages(env, keep_freed=True)
    return env


def thread_binding(config: SamplerConfig, cores: list[int]) -> str:
    """The cores of each rank, `0,1|2,3`; `auto` would leave one of two cores idle."""
    ranks = config.tensor_parallel * config.data_parallel
    share = max(1, min(config.threads or len(cores), len(cores)) // ranks)
    groups = [cores[rank * share : (rank + 1) * share] or cores[-share:] for rank in range(ranks)]
    return "|".join(",".join(map(str, group)) for group in groups)


def log_tail(log_file: Path | None, lines: int = 15) -> str:
    """The last lines of a log, long ones cut; what to say when there is none."""
    if log_file is None or not log_file.is_file():
        return "(no log was kept)"
    with open(log_file, encoding="utf-8", errors="replace") as log:
        return "\n".join(line.rstrip()[:300] for line in deque(log, maxlen=lines))


def _port(config: SamplerConfig) -> int:
    """The port asked for, or a free one.

    Raises:
        MachineLacks: another process listens there.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", config.port or 0))
        except OSError as error:
            raise MachineLacks(
                f"port {config.port} for the sampler is taken: {error.strerror}",
                hint="end what listens there, or leave runtime.sampler.port out to have a free one picked",
            ) from error
        number: int = probe.getsockname()[1]
        return number


def _healthy(url: str, *, timeout_s: float) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=timeout_s).status_code == 200
    except httpx.HTTPError:
        return False


def _wait_healthy(guarded: Guarded, url: str, config: SamplerConfig, progress: Progress | None) -> None:
    """Return once the server answers; raise as soon as it cannot any more."""
    started = told = time.monotonic()
    while not _healthy(url, timeout_s=2.0):
        now = time.monotonic()
        code = guarded.poll()
        if code is not None:
            raise EngineFailed(
                f"the vLLM server of {config.model_dir} ended with code {code} at its start; its log ends:\n"
                + log_tail(config.log_file),
                hint=f"the whole log: {config.log_file}",
            )
        if now - started > config.start_timeout_s:
            raise EngineFailed(
                f"the vLLM server of {config.model_dir} is silent after {config.start_timeout_s:.0f} s; "
                "its log ends:\n" + log_tail(config.log_file),
                hint="raise runtime.sampler.start_timeout_s, or look at the log",
            )
        if progress is not None and now - told >= 1.0:
            progress(now - started, log_tail(config.log_file, lines=1))
            told = now
        time.sleep(POLL_S)


def _first_generation(url: str, config: SamplerConfig) -> None:
    """One generation with a seed, so that no rollout pays for what the first request sets up."""
    body = {
        "token_ids": [1, 1, 1],
        "sampling_params": {
            "max_tokens": 2,
            "temperature": 1.0,
            "seed": 0,
            "logprobs": 0,
            "detokenize": False,
        },
    }
    try:
        answer = httpx.post(f"{url}/inference/v1/generate", json=body, timeout=config.start_timeout_s)
        answer.raise_for_status()
    except httpx.HTTPError as error:
        raise EngineFailed(
            f"the vLLM server of {config.model_dir} started but cannot generate: {error}; its log ends:\n"
            + log_tail(config.log_file)
        ) from error


def _attach(config: SamplerConfig, url: str) -> RunningServer:
    """The user's server, if it has every route that training needs."""
    try:
        answer = httpx.get(f"{url}/openapi.json", timeout=30.0)
        answer.raise_for_status()
        paths = answer.json().get("paths", {})
    except (httpx.HTTPError, ValueError) as error:
        raise MachineLacks(
            f"no vLLM server answers at {url}: {error}", hint="start it, or leave runtime.sampler.url out"
        ) from error
    missing = [route for route in NEEDED_ROUTES if route not in paths]
    if missing:
        raise MachineLacks(
            f"the server at {url} lacks {', '.join(missing)}",
            hint="start vLLM with VLLM_SERVER_DEV_MODE=1, --enable-scale-out and "
            "--logprobs-mode processed_logprobs",
        )
    return RunningServer(url, config.model_dir, None, 0.0, None)
