"""The client of a vLLM server: token ids in, ids and processed logprobs out; weights replaced, confirmed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, cast

import aiohttp
from pydantic import ValidationError

from mimo.backends.base import Sampled, SamplingParams, WeightUpdate
from mimo.backends.server_watch import HEALTH_EVERY_S, ServerWatch
from mimo.backends.vllm_server import RunningServer, start_server
from mimo.backends.vllm_wire import Choice, GenerateAnswer, at_temperature, sampling_body, scoring_body
from mimo.backends.weight_layout import Tensor, check_layout, tensor_layout
from mimo.errors import EngineFailed
from mimo.types import FinishReason, Json

__all__ = ["RunningServer", "VllmSampler", "start_server"]

TRIES = 4
PAUSED_POLL_S = 0.25
"""A paused server may refuse requests (503) instead of queueing them."""
FIRST_VERSION = "default"
"""What vLLM calls its weights until somebody names them."""
FINISH: Mapping[str | None, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "abort": "abort",
    "repetition": "stop",
}


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
            reference_dir: the folder whose tensors an update must match; None = the server's first.
            timeout_s: of one request, waiting in the server's queue included.
        """
        self.url = url.rstrip("/")
        self.weight_version = weight_version
        self._timeout_s = timeout_s
        self._reference_dir = reference_dir
        self._layout: dict[str, Tensor] | None = None
        self._agreed = False
        self._client: tuple[asyncio.AbstractEventLoop, aiohttp.ClientSession] | None = None
        self._watch = ServerWatch(self.url)

    async def generate(
        self, prompt_ids: Sequence[int], params: SamplingParams, *, request_id: str
    ) -> Sampled:
        """One continuation of `prompt_ids` (see `Sampler.generate`)."""
        await self._agree()
        version, started = self.weight_version, time.monotonic()
        answer = await self._generate(prompt_ids, sampling_body(params), request_id=request_id)
        choice = answer.choices[0]
        entries = choice.logprobs.content if choice.logprobs else []
        if [entry.token_id for entry in entries] != choice.token_ids:
            raise EngineFailed(
                f"request {request_id}: {len(entries)} logprobs that do not belong to its "
                f"{len(choice.token_ids)} tokens"
            )
        if choice.finish_reason not in FINISH:
            raise EngineFailed(
                f"request {request_id} ended with {choice.finish_reason!r}: see the sampler's log"
            )
        self._check_version(choice, version)
        return Sampled(
            token_ids=tuple(choice.token_ids),
            logprobs=tuple(entry.logprob for entry in entries),
            finish_reason=FINISH[choice.finish_reason],
            weight_version=version,
            cached_tokens=answer.cached_tokens(),
            seconds=time.monotonic() - started,
        )

    async def score(self, token_ids: Sequence[int], *, temperature: float) -> tuple[float, ...]:
        """Logprob of each token but the first given those before it: [len(token_ids) - 1].

        vLLM applies no temperature to a prompt's logprobs: for one other than 1 the logprobs of the whole
        vocabulary are fetched and rescaled, exactly. That is for short sequences or small vocabularies.
        """
        if len(token_ids) < 2:
            return ()
        await self._agree()
        version = self.weight_version
        body = scoring_body(whole_vocabulary=temperature != 1.0)
        answer = await self._generate(token_ids, body, request_id=None)
        self._check_version(answer.choices[0], version)
        rows = (answer.prompt_logprobs or [])[1:]
        if len(rows) != len(token_ids) - 1:
            raise EngineFailed(f"{self.url} scored {len(rows)} tokens, expected {len(token_ids) - 1}")
        return tuple(
            at_temperature(row or {}, token, temperature)
            for row, token in zip(rows, token_ids[1:], strict=True)
        )

    async def update_weights(self, model_dir: Path, version: int) -> WeightUpdate:
        """Replace the weights by those in `model_dir`, after checking that it fits; caches are empty then.

        Raises:
            EngineFailed: the folder does not fit (nothing was sent), or the engine did not confirm a step (it
                stays paused, as nobody can say which weights it holds).
        """
        if self._layout is None:
            self._layout = tensor_layout(self._reference_dir or await self._served_dir())
        check_layout(model_dir, self._layout)
        return await self.replace_weights(model_dir, version)

    async def replace_weights(self, model_dir: Path, version: int) -> WeightUpdate:
        """`update_weights` without looking at the folder: vLLM takes an incomplete one without an error."""
        started = time.monotonic()
        await self.pause()
        self._agreed = False
        path: dict[str, Json] = {"weights_path": str(model_dir.absolute())}
        await self._send("POST", "/collective_rpc", body={"method": "reload_weights", "kwargs": path})
        if not await self._reset_prefix_cache():
            raise EngineFailed(f"{self.url}: the prefix cache was not reset in the update to {version}")
        await self._send("POST", "/update_weight_version", body={"new_version": str(version)})
        await self.resume()
        self.weight_version, self._agreed = version, True
        return WeightUpdate(version=version, seconds=time.monotonic() - started, prefix_cache_reset=True)

    async def pause(self, *, sleep: bool = False) -> None:
        """Let running requests end and start no other: the engine is idle. `sleep` frees a GPU's memory."""
        await self._send("POST", "/pause?mode=wait")
        if sleep:
            await self._send("POST", "/sleep?level=1")

    async def resume(self, *, wake_up: bool = False) -> None:
        """Take requests again; `wake_up` after `pause(sleep=True)`."""
        if wake_up:
            await self._send("POST", "/wake_up")
        await self._send("POST", "/resume")

    async def is_sleeping(self) -> bool:
        """Whether it is paused, asleep or not; only a server on GPUs (`--enable-sleep-mode`) can say."""
        return _field(await self._send("GET", "/is_sleeping"), "is_sleeping") is True

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            loop, client = self._client
            self._client = None
            if loop is asyncio.get_running_loop():
                await client.close()

    async def _agree(self) -> None:
        """Once per client: name a fresh server's weights, or check that it holds the version we think."""
        if self._agreed:
            return
        mine = str(self.weight_version)
        info = _field((await self._send("GET", "/weight_info")), "weight_version")
        if info == FIRST_VERSION:
            await self._send("POST", "/update_weight_version", body={"new_version": mine})
        elif info != mine:
            raise EngineFailed(
                f"{self.url} holds weights {info}, expected {mine}",
                hint="update its weights before sampling, or start another server",
            )
        self._agreed = True

    def _check_version(self, choice: Choice, expected: int) -> None:
        made_by = {span.version for span in choice.weight_versions or ()}
        if not made_by <= {str(expected)}:
            raise EngineFailed(
                f"{self.url} sampled with weights {sorted(made_by)}, expected {expected}",
                hint="the server was restarted, or somebody else replaced its weights",
            )

    async def _served_dir(self) -> Path:
        """The folder that the server says it was started from."""
        listed = _field(await self._send("GET", "/v1/models"), "data")
        root = Path(str(_field(cast("list[Json]", listed)[0], "root")))
        if not root.is_dir():
            raise EngineFailed(
                f"{self.url} was started from {root}, which is no folder here (any more)",
                hint="give reference_dir: a folder whose tensors an update must match",
            )
        return root

    async def _reset_prefix_cache(self) -> bool:
        """Whether the cache is empty; blocks may be held for a moment after the last request."""
        for attempt in range(TRIES):
            if _field(await self._send("POST", "/reset_prefix_cache"), "success") is True:
                return True
            await asyncio.sleep(0.1 * 2**attempt)
        return False

    async def _generate(
        self, token_ids: Sequence[int], sampling: dict[str, Json], *, request_id: str | None
    ) -> GenerateAnswer:
        body: dict[str, Json] = {
            "token_ids": list(token_ids),
            "sampling_params": sampling,
            "cache_salt": str(self.weight_version),
        }
        if request_id is not None:
            body["request_id"] = request_id
        answer = await self._send("POST", "/inference/v1/generate", body=body)
        try:
            return GenerateAnswer.model_validate(answer)
        except ValidationError as error:
            raise EngineFailed(
                f"{self.url} answers in another form: {error}", hint="vLLM 0.32 or 0.33 is needed"
            ) from error

    async def _send(
        self, method: Literal["GET", "POST"], path: str, *, body: Mapping[str, Json] | None = None
    ) -> Json:
        """The JSON answer; a server that dies meanwhile ends the wait (its API may outlive its engine)."""
        request = asyncio.ensure_future(self._exchange(method, path, body=body))
        try:
            while not (await asyncio.wait({request}, timeout=HEALTH_EVERY_S))[0]:
                await self._watch.check()
            return request.result()
        finally:
            request.cancel()

    async def _exchange(
        self, method: Literal["GET", "POST"], path: str, *, body: Mapping[str, Json] | None = None
    ) -> Json:
        """The JSON answer. Sent again when the connection broke or the server is paused: no route minds."""
        failures = 0
        deadline = time.monotonic() + self._timeout_s
        while time.monotonic() < deadline:
            try:
                async with self._connection().request(method, self.url + path, json=body) as answer:
                    status, content = answer.status, await answer.read()
            except TimeoutError:
                break
            except aiohttp.ClientError as error:
                failures += 1
                if failures == TRIES:
                    raise EngineFailed(
                        f"{self.url}{path}: no answer after {TRIES} tries: {type(error).__name__}: {error}",
                        hint="the sampler's log says why it ended; the same command starts it again",
                    ) from error
                await asyncio.sleep(0.1 * 3**failures)
                continue
            if 200 <= status < 300:
                return _parsed(content, self.url + path)
            if status != 503:
                said = content[:500].decode(errors="replace")
                raise EngineFailed(f"{self.url}{path}: {status}: {said}")
            await asyncio.sleep(PAUSED_POLL_S)
        raise EngineFailed(f"{self.url}{path}: no answer within {self._timeout_s:.0f} s")

    def _connection(self) -> aiohttp.ClientSession:
        """The client of the running event loop (connections cannot move to another one)."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._client[0] is not loop:
            # uvicorn drops a connection after 5 s of silence: let go of ours before it does.
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=2.0)
            timeout = aiohttp.ClientTimeout(total=self._timeout_s)
            self._client = (loop, aiohttp.ClientSession(connector=connector, timeout=timeout))
        return self._client[1]


def _parsed(content: bytes, source: str) -> Json:
    """The JSON of an answer.

    Raises:
        EngineFailed: it is none.
    """
    try:
        return cast("Json", json.loads(content))
    except ValueError as error:
        raise EngineFailed(f"{source} answered what is no JSON: {content[:200]!r}") from error


def _field(answer: Json, name: str) -> Json:
    """A field of a JSON object.

    Raises:
        EngineFailed: it is not there.
    """
    if not isinstance(answer, dict) or name not in answer:
        raise EngineFailed(f"the server answered {str(answer)[:200]}, expected a field {name!r}")
    return answer[name]
