"""A request whose server dies ends, although its connection stays open."""

from __future__ import annotations

import asyncio

import pytest

from mimo.backends import vllm
from mimo.backends.base import SamplingParams
from mimo.backends.server_watch import ServerWatch
from mimo.backends.vllm import VllmSampler
from mimo.errors import EngineFailed

PARAMS = SamplingParams(temperature=1.0, top_p=1.0, max_tokens=4)
HEALTHY = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


class Mute:
    """Answers `/health` while `healthy`, and never anything else."""

    def __init__(self) -> None:
        self.healthy = True
        self.looks = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readline()
        if b"/health" not in line:
            await asyncio.sleep(60)
            return
        self.looks += 1
        if self.healthy:
            writer.write(HEALTHY)
            await writer.drain()
        writer.close()


def test_a_request_ends_when_its_server_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm, "HEALTH_EVERY_S", 0.05)

    async def go() -> None:
        mute = Mute()
        server = await asyncio.start_server(mute, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        sampler = VllmSampler(url, 1)
        sampler._watch = ServerWatch(url, every_s=0.05)
        waiting = asyncio.ensure_future(sampler.generate((1, 2), PARAMS, request_id="r"))
        await asyncio.sleep(0.5)
        assert not waiting.done()
        assert mute.looks > 1
        mute.healthy = False
        with pytest.raises(EngineFailed, match="gone while requests wait"):
            await asyncio.wait_for(waiting, timeout=10)
        server.close()
        await sampler.close()

    asyncio.run(go())


def test_many_waiters_look_once() -> None:
    async def go() -> int:
        mute = Mute()
        server = await asyncio.start_server(mute, "127.0.0.1", 0)
        watch = ServerWatch(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        await asyncio.gather(*(watch.check() for _ in range(50)))
        server.close()
        return mute.looks

    assert asyncio.run(go()) == 1
