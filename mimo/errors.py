"""What can go wrong, by what the caller can do about it; each class carries its exit code.

MimoError 1
├── RecipeError 2        the recipe, the command line or a file the user named is wrong
│   └── WrongSource 2    what the recipe names is there, and is not what the recipe says of it
├── StageFailed 1        a stage ran and did not do its job
├── FetchFailed 1        something that the recipe names could not be fetched (network, server)
├── EngineFailed 1       a sampler or trainer died, or its weights are not what they should be
├── PlanHasWork 3        `plan --check` found something to do
├── GateRefused 4        a gate says no: a leak is left, the hack share is over its limit
├── MachineLacks 69      a program, a kernel feature, memory, disk or a device is missing
├── Busy 75              another process holds the lock
├── StoppedSafely 75     stopped by `stop` or SIGTERM at a safe point; resumable
└── Interrupted 130      stopped by Ctrl-C; resumable
"""

from __future__ import annotations


class MimoError(Exception):
    """A failure with one clear message: what, where, got and expected; `hint` says what to do."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.hint))


def _rebuild(kind: type[MimoError], message: str, hint: str | None) -> MimoError:
    return kind(message, hint=hint)


class RecipeError(MimoError):
    """The recipe, the command line or a file the user named is wrong; every problem is listed at once."""

    exit_code = 2


class WrongSource(RecipeError):
    """A source of the recipe is not what the recipe says of it: another hash, no such release."""

    exit_code = 2


class FetchFailed(MimoError):
    """A source of the recipe could not be fetched (network, server); the same command tries again."""

    exit_code = 1


class StageFailed(MimoError):
    """A stage ran and did not do its job."""

    exit_code = 1


class EngineFailed(MimoError):
    """A sampler or trainer died, does not answer, or holds other weights than it should."""

    exit_code = 1


class PlanHasWork(MimoError):
    """`mimo plan --check` found stages that would run."""

    exit_code = 3


class GateRefused(MimoError):
    """A gate says no: an environment still leaks, or the share of hacks is over its limit."""

    exit_code = 4


class MachineLacks(MimoError):
    """This machine lacks a program, a kernel feature, memory, disk, a port or a device."""

    exit_code = 69


class Busy(MimoError):
    """Another process holds the lock of this run or stage."""

    exit_code = 75


class StoppedSafely(MimoError):
    """Stopped at a safe point by `mimo stop` or SIGTERM; the same command goes on."""

    exit_code = 75


class Interrupted(MimoError):
    """Stopped by Ctrl-C; the same command goes on."""

    exit_code = 130
