"""The client of a vLLM server: token ids in, token ids and processed logprobs out; weights replaced and confirmed."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from mimo.backends.base import Sampled, SamplingParams, WeightUpdate
from mimo.backends.vllm_server import RunningServer, start_server
from mimo.backends.weight_layout import Tensor, check_layout, tensor_layout
from mimo.errors import EngineFailed, MimoError
from mimo.types import FinishReason

__all__ = ["RunningServer", "VllmSampler", "start_server"]

TRIES = 4
FIRST_VERSION = "default"
"""What vLLM calls its weights until somebody names them."""
FINISH: Mapping[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "abort": "abort",
    "repetition": "stop",
}
MAX_RESCALED = 4_000_000
"""Logprobs that `score` fetches at most when a temperature other than 1 makes it fetch whole vocabularies."""


class VllmSampler:
    """A `Sampler` over one vLLM server. Many requests may run at once; one weight update at a time.

    Every answer names the weights that made it; other weights than `weight_version` are an `EngineFailed`.
    """

    def __init__(
        self,
        url: str,
        weight_version: int,
        *,
        reference_dir: Path | None = None,
        timeout_s: float = 1800.0,
    ) -> None:
        """Nothing is sent yet.

        Args:
            weight_version: the version that the server holds (a fresh server takes it as its name).
            reference_dir: the folder whose tensors an update must match; by default the one the server started from.
            timeout_s: of one request, waiting in the server's queue included.
        """
        self.url = url.rstrip("/")
        self.weight_version = weight_version
        self._timeout_s = timeout_s
        self._reference_dir = reference_dir
        self._layout: dict[str, Tensor] | None = None
        self._agreed = False
        self._client: tuple[asyncio.AbstractEventLoop, httpx.AsyncClient] | None = None

    async def generate(
        self, prompt_ids: Sequence[int], params: SamplingParams, *, request_id: str
    ) -> Sampled:
        """One continuation of `prompt_ids` (see `Sampler.generate`)."""
        await self._agree()
        version = self.weight_version
        started = time.monotonic()
        answer = await self._generate(prompt_ids, _wire(params), request_id=request_id)
        choice = answer["choices"][0]
        ids = tuple(choice["token_ids"] or ())
        content = (choice["logprobs"] or {}).get("content") or []
        if [entry["token_id"] for entry in content] != list(ids):
            raise EngineFailed(f"request {request_id}: {len(content)} logprobs for {len(ids)} tokens")
        self._check_version(choice, version)
        return Sampled(
            token_ids=ids,
            logprobs=tuple(float(entry["logprob"]) for entry in content),
            finish_reason=_finish(choice["finish_reason"], request_id),
            weight_version=version,
            cached_tokens=_cached(answer),
            seconds=time.monotonic() - started,
        )

    async def score(self, token_ids: Sequence[int], *, temperature: float) -> tuple[float, ...]:
        """Logprob of each token but the first given those before it: [len(token_ids) - 1].

        vLLM does not apply a temperature to a prompt's logprobs; for one other than 1 the whole vocabulary is fetched
        and rescaled here, exactly, which is meant for short sequences or small vocabularies.
        """
        if len(token_ids) < 2:
            return ()
        await self._agree()
        wanted = 0 if temperature == 1.0 else -1
        sampling = {"temperature": 1.0, "max_tokens": 1, "prompt_logprobs": wanted, "detokenize": False}
        answer = await self._generate(token_ids, sampling, request_id=None)
        self._check_version(answer["choices"][0], self.weight_version)
        rows: list[dict[str, dict[str, Any]]] = answer["prompt_logprobs"][1:]
        return tuple(
            _rescaled(row, str(token), temperature) for row, token in zip(rows, token_ids[1:], strict=True)
        )

    async def update_weights(self, model_dir: Path, version: int) -> WeightUpdate:
        """Replace the weights by those in `model_dir` after checking that the folder fits; caches are empty then.

        Raises:
            EngineFailed: the folder does not fit (nothing was sent), or the engine did not confirm a step (it stays
                paused, as nobody can say which weights it holds).
        """
        if self._layout is None:
            self._layout = tensor_layout(self._reference_dir or await self._served_dir())
        check_layout(model_dir, self._layout)
        return await self.replace_weights(model_dir, version)

    async def replace_weights(self, model_dir: Path, version: int) -> WeightUpdate:
        """`update_weights` without looking at the folder: vLLM takes an incomplete one without an error."""
        started = time.monotonic()
        await self.pause()
        path = {"weights_path": str(model_dir.absolute())}
        await self._post("/collective_rpc", json={"method": "reload_weights", "kwargs": path})
        if not await self._reset_prefix_cache():
            raise EngineFailed(f"{self.url}: the prefix cache was not reset after the update to {version}")
        await self._post("/update_weight_version", json={"new_version": str(version)})
        await self.resume()
        self.weight_version, self._agreed = version, True
        return WeightUpdate(version=version, seconds=time.monotonic() - started, prefix_cache_reset=True)

    async def pause(self, *, sleep: bool = False) -> None:
        """Let running requests end and start no other; then the engine is idle. `sleep` frees a GPU's memory."""
        await self._post("/pause", params={"mode": "wait"})
        if sleep:
            await self._post("/sleep", params={"level": "1"})

    async def resume(self, *, wake_up: bool = False) -> None:
        """Take requests again; `wake_up` after `pause(sleep=True)`."""
        if wake_up:
            await self._post("/wake_up")
        await self._post("/resume")

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            _, client = self._client
            self._client = None
            await client.aclose()

    async def _agree(self) -> None:
        """Once per client: name a fresh server's weights, or check that it holds the version we think."""
        if self._agreed:
            return
        info = (await self._send("GET", "/weight_info"))["weight_version"]
        mine = str(self.weight_version)
        if info == FIRST_VERSION:
            await self._post("/update_weight_version", json={"new_version": mine})
        elif info != mine:
            raise EngineFailed(
                f"{self.url} holds weights {info}, expected {mine}",
                hint="update its weights before sampling, or start another server",
            )
        self._agreed = True

    def _check_version(self, choice: dict[str, Any], expected: int) -> None:
        spans = {span["version"] for span in choice.get("weight_versions") or ()}
        if not spans <= {str(expected)}:
            raise EngineFailed(
                f"{self.url} sampled with weights {sorted(spans)}, expected {expected}",
                hint="the server was restarted, or somebody else replaced its weights",
            )

    async def _served_dir(self) -> Path:
        """The folder that the server says it was started from."""
        root = Path((await self._send("GET", "/v1/models"))["data"][0]["root"])
        if not root.is_dir():
            raise EngineFailed(
                f"{self.url} serves {root}, which is no folder here",
                hint="give the folder whose tensors an update must match",
            )
        return root

    async def _reset_prefix_cache(self) -> bool:
        """Whether the cache is empty; blocks may be held for a moment after the last request."""
        for attempt in range(TRIES):
            if (await self._post("/reset_prefix_cache"))["success"]:
                return True
            await asyncio.sleep(0.1 * 2**attempt)
        return False

    async def _generate(
        self, token_ids: Sequence[int], sampling: dict[str, Any], *, request_id: str | None
    ) -> dict[str, Any]:
        body: dict[str, Any] = {
            "token_ids": list(token_ids),
            "sampling_params": sampling | {"watermarking": False},
            "cache_salt": str(self.weight_version),
        }
        if request_id is not None:
            body["request_id"] = request_id
        answer: dict[str, Any] = await self._post("/inference/v1/generate", json=body)
        return answer

    async def _post(self, path: str, **request: Any) -> Any:
        return await self._send("POST", path, **request)

    async def _send(self, method: str, path: str, **request: Any) -> Any:
        """The JSON answer. Repeated when the connection broke or the server is paused: no route here minds that."""
        failure = ""
        for attempt in range(TRIES):
            if attempt:
                await asyncio.sleep(0.1 * 4**attempt)
            try:
                answer = await self._connection().request(method, path, **request)
            except httpx.TimeoutException as error:
                raise EngineFailed(
                    f"{self.url}{path} did not answer within {self._timeout_s:.0f} s"
                ) from error
            except httpx.TransportError as error:
                failure = f"{type(error).__name__}: {error}"
                continue
            if answer.status_code == 503:
                failure = f"503: {answer.text[:300]}"
                continue
            if answer.is_success:
                return answer.json()
            raise EngineFailed(f"{self.url}{path}: {answer.status_code}: {answer.text[:500]}")
        raise EngineFailed(
            f"{self.url}{path}: no answer after {TRIES} tries: {failure}",
            hint="the sampler's log says why it ended; the same command starts it again and goes on",
        )

    def _connection(self) -> httpx.AsyncClient:
        """The client of the running event loop (connections cannot move to another one)."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._client[0] is not loop:
            # uvicorn drops a connection after 5 s of silence: let go of ours before it does.
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=256, keepalive_expiry=2.0)
            client = httpx.AsyncClient(
                base_url=self.url, timeout=self._timeout_s, limits=limits, trust_env=False
            )
            self._client = (loop, client)
        return self._client[1]


def _wire(params: SamplingParams) -> dict[str, Any]:
    """vLLM's sampling parameters with everything that could change the distribution said."""
    return {
        "temperature": params.temperature,
        "top_p": params.top_p,
        "top_k": 0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "max_tokens": params.max_tokens,
        "stop_token_ids": list(params.stop_token_ids),
        "seed": params.seed,
        "logprobs": 0,
        "detokenize": False,
    }


def _finish(reason: str | None, request_id: str) -> FinishReason:
    if reason not in FINISH:
        raise EngineFailed(f"request {request_id} ended with {reason!r}", hint="see the sampler's log")
    return FINISH[reason]


def _cached(answer: dict[str, Any]) -> int | None:
    details = (answer.get("usage") or {}).get("prompt_tokens_details") or {}
    cached: int | None = details.get("cached_tokens")
    return cached


def _rescaled(row: Mapping[str, Mapping[str, Any]], token: str, temperature: float) -> float:
    """The token's logprob at `temperature`, from the logprobs of the vocabulary at 1."""
    own = float(row[token]["logprob"])
    if temperature == 1.0:
        return own
    scaled = [float(entry["logprob"]) / temperature for entry in row.values()]
    top = max(scaled)
    return own / temperature - top - math.log(math.fsum(math.exp(value - top) for value in scaled))
