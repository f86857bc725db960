"""The shared verifier: one verification for equal changes, none kept that gave no verdict."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from mimo.types import Verdict
from sandbox.base import Changes
from sandbox.errors import SandboxError
from tests.mimo.rollouts.conftest import Lab

NOTHING = Changes(files=(), capped=False)
PASSED = Verdict(passed=True, tampered=False, detail={})


class Verifier:
    """A domain of which only `verify` is asked: waits for `go`, then does what the next of `ways` says."""

    def __init__(self, *ways: Callable[[], Verdict]) -> None:
        self.ways = list(ways)
        self.go = threading.Event()

    def verify(self, *_: object) -> Verdict:
        self.go.wait(10.0)
        return self.ways.pop(0)()


def fails() -> Verdict:
    raise SandboxError("no box")


def test_a_failed_verification_is_tried_again_though_its_waiter_is_gone(lab: Lab) -> None:
    async def scenario() -> Verdict:
        house, verifier = lab.house(), Verifier(fails, lambda: PASSED)
        house.domain = lambda _: verifier  # type: ignore[assignment, return-value]
        first = asyncio.create_task(house.verify(lab.tasks[0], NOTHING))
        await asyncio.sleep(0.05)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        (judged,) = house.verdicts.values()
        verifier.go.set()
        await asyncio.wait({judged})
        return await house.verify(lab.tasks[0], NOTHING)

    assert asyncio.run(scenario()) == PASSED
