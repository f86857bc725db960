"""Whether a server is still there while a request waits: a wait must end when its producer does.

vLLM's API process outlives its engine for minutes and answers no request it holds. `/health` tells: asked now
and then, by all waiting requests together, on a connection of its own.
"""

from __future__ import annotations

import time

import httpx

from mimo.errors import EngineFailed

HEALTH_EVERY_S = 10.0
"""A request that waits longer looks at the server this often."""
HEALTH_TIMEOUT_S = 20.0
"""A starved machine answers late; only silence beyond this counts against the server."""
LOST_AFTER = 3
"""So many looks in a row without a good answer, and the server is gone."""


class ServerWatch:
    """Looks at one server's `/health`, at most once per interval however many ask."""

    def __init__(self, url: str, *, every_s: float = HEALTH_EVERY_S) -> None:
        self.url = url
        self._every_s = every_s
        self._looked = 0.0
        self._failures = 0
        self._why = ""

    async def check(self) -> None:
        """Look, unless someone just did.

        Raises:
            EngineFailed: the last looks all failed; says how.
        """
        if time.monotonic() - self._looked >= self._every_s / 2:
            self._looked = time.monotonic()
            await self._look()
        if self._failures >= LOST_AFTER:
            raise EngineFailed(
                f"{self.url} is gone while requests wait: {self._why}",
                hint="the sampler's log says why it ended; the same command starts it again",
            )

    async def _look(self) -> None:
        try:
            async with httpx.AsyncClient(timeout=HEALTH_TIMEOUT_S, trust_env=False) as client:
                answer = await client.get(f"{self.url}/health")
            self._why = f"/health answers {answer.status_code}"
            good = answer.is_success
        except httpx.TransportError as error:
            self._why = f"/health: {type(error).__name__}: {error}"
            good = False
        self._failures = 0 if good else self._failures + 1
