"""The one place where an exception inside a rollout becomes data; siblings go on.

An engine that is gone is no rollout's fault: `EngineFailed` passes through and ends the stage (resumable).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mimo.errors import MachineLacks, MimoError
from mimo.types import RolloutError, RolloutStatus
from sandbox.errors import SandboxLimit, SandboxUnavailable

_MESSAGE_CHARS = 2000


class RolloutFailed(Exception):
    """A rollout that ends early, as the data that its record will carry."""

    def __init__(self, status: RolloutStatus, error: RolloutError) -> None:
        super().__init__(f"{error.where}: {error.type}: {error.message}")
        self.status = status
        self.error = error


@contextmanager
def boundary(where: str) -> Iterator[None]:
    """Classify what goes wrong inside: limit, timeout or error, with `where` as the boundary's name.

    Raises:
        RolloutFailed: with the record's status and error.
        MimoError: unchanged (an engine that died, a bad recipe): not this rollout's fault.
        MachineLacks: the sandbox back end is gone (a Docker daemon that does not answer).
    """
    try:
        yield
    except (RolloutFailed, MimoError):
        raise
    except SandboxUnavailable as error:  # no box can be opened any more: every next rollout would fail alike
        raise MachineLacks(str(error), hint=error.hint) from error
    except SandboxLimit as error:
        raise RolloutFailed(RolloutStatus.LIMIT, _record(where, error, kind=error.kind)) from error
    except TimeoutError as error:
        raise RolloutFailed(RolloutStatus.TIMEOUT, _record(where, error)) from error
    except Exception as error:
        raise RolloutFailed(RolloutStatus.ERROR, _record(where, error)) from error


def _record(where: str, error: Exception, *, kind: str | None = None) -> RolloutError:
    name = type(error).__name__ if kind is None else f"{type(error).__name__}:{kind}"
    return RolloutError(where=where, type=name, message=str(error)[:_MESSAGE_CHARS])
