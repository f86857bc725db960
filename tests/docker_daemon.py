"""Whether a Docker daemon runs here; tests that need one carry `needs_docker`."""

from __future__ import annotations

import functools

import pytest

from sandbox.docker_host import require_hosts
from sandbox.errors import SandboxUnavailable


@functools.cache
def why_not() -> str:
    """Empty where a daemon answers."""
    try:
        require_hosts(())
    except SandboxUnavailable as error:
        return str(error)
    return ""


def needs_docker(test: object) -> object:
    """The test, marked `docker` and skipped, with the reason, where no daemon answers."""
    marked = pytest.mark.docker(test)  # type: ignore[operator]
    return pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")(marked)
