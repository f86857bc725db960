"""The run's sampler server: started when a stage first asks, handed on, started again if it died."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mimo.backends.base import SamplerConfig
from mimo.errors import EngineFailed, MimoError
from mimo.recipe.environment import resolve_env
from mimo.recipe.models import Recipe
from mimo.types import Json

Progress = Callable[[float, str], None]


class Server(Protocol):
    """A running server (mimo.backends.vllm.RunningServer)."""

    @property
    def url(self) -> str:
        """Where it answers."""
        ...

    def alive(self) -> bool:
        """Whether it still answers."""
        ...

    def close(self) -> None:
        """End its whole tree. Idempotent."""
        ...


class StartServer(Protocol):
    """`mimo.backends.vllm.start_server`."""

    def __call__(self, config: SamplerConfig, *, progress: Progress | None = None) -> Server:
        """A server that answers."""
        ...


@dataclass(slots=True)
class _Held:
    server: Server
    model_dir: Path
    version: int


class Engines:
    """The engines of a run. `ask` may be called from any thread; `close` ends them and stays closed."""

    def __init__(self, recipe: Recipe, log_folder: Path, start: StartServer | None = None) -> None:
        self._recipe = recipe
        self._log = log_folder / "sampler.log"
        self._start = start or _start_vllm
        self._held: _Held | None = None
        self._lock = threading.Lock()
        self._closed = False
        self.starts = 0

    def ask(self, model_dir: Path, progress: Progress | None = None) -> dict[str, Json]:
        """The answer to a stage's request: url, model_dir, version, and whether the server had died and was
        started again; or error, hint and type of the error.
        """
        try:
            with self._lock:
                died = self._held is not None and not self._held.server.alive()
                held = self._up(model_dir, progress)
                place = {"url": held.server.url, "model_dir": str(held.model_dir)}
                return {**place, "version": held.version, "restarted": died}
        except MimoError as error:
            return {"error": error.message, "hint": error.hint, "type": type(error).__name__}

    def holds(self, model_dir: Path, version: int) -> None:
        """A stage says which weights the server now has."""
        if self._held is not None:
            self._held.model_dir, self._held.version = model_dir, version

    def close(self) -> None:
        """End the server, one that is starting too. Idempotent."""
        self._closed = True
        with self._lock:
            if self._held is not None:
                self._held.server.close()
                self._held = None

    def _up(self, model_dir: Path, progress: Progress | None) -> _Held:
        if self._held is not None and not self._held.server.alive():
            self._held.server.close()
            self._held = None
        if self._held is None:
            config = sampler_config(self._recipe, model_dir, self._log)
            self._log.parent.mkdir(parents=True, exist_ok=True)
            server = self._start(config, progress=self._watch(progress))
            self.starts += 1
            self._held = _Held(server, model_dir, 0)
        self._held.version = _served_version(self._held)
        return self._held

    def _watch(self, progress: Progress | None) -> Progress:
        """Passes progress on; ends a start when the run ends meanwhile."""

        def seen(seconds: float, line: str) -> None:
            if self._closed:
                raise EngineFailed("the run ended while its sampler was starting")
            if progress is not None:
                progress(seconds, line)

        return seen


def sampler_config(recipe: Recipe, model_dir: Path, log_file: Path) -> SamplerConfig:
    """The server that `policy` and `runtime.sampler` describe, on `model_dir`."""
    from mimo.backends.devices import pick_device

    runtime = recipe.runtime.sampler
    return SamplerConfig(
        model_dir=model_dir,
        dtype=recipe.policy.dtype,
        max_model_len=recipe.policy.context_tokens,
        url=resolve_env(runtime.urls[0]) if runtime.urls else None,
        port=runtime.port,
        device=pick_device(runtime.device),
        kv_cache_gib=runtime.kv_cache_gib,
        max_num_seqs=runtime.max_num_seqs,
        threads=runtime.threads,
        gpu_memory_utilization=runtime.gpu_memory_utilization,
        tensor_parallel=runtime.tensor_parallel,
        data_parallel=runtime.data_parallel,
        start_timeout_s=runtime.start_timeout_s,
        log_file=log_file,
        extra_args=tuple(runtime.extra_args),
    )


def _start_vllm(config: SamplerConfig, *, progress: Progress | None = None) -> Server:
    from mimo.backends.vllm_server import start_server

    return start_server(config, progress=progress)


def _served_version(held: _Held) -> int:
    """The version the server names (a stage may have died before it told us); else what we were told."""
    with (
        suppress(OSError, ValueError, KeyError, TypeError),
        urllib.request.urlopen(f"{held.server.url}/weight_info", timeout=5.0) as answer,
    ):
        return int(json.load(answer)["weight_version"])
    return held.version
