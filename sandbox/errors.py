"""What a sandbox can fail with; `sandbox` knows nothing of mimo's own errors."""

from __future__ import annotations


class SandboxError(Exception):
    """A box could not be made, used or taken apart; `hint` says what to do."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class SandboxUnavailable(SandboxError):
    """This machine cannot run that back end: a program, kernel feature or permission is missing."""


class SandboxLost(SandboxError):
    """The box died under us (killed, out of memory, daemon gone); its work is lost."""


class SandboxLimit(SandboxError):
    """A limit of the box was hit; `kind` is memory, processes, disk or wall."""

    def __init__(self, message: str, *, kind: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.kind = kind


class SandboxFileError(SandboxError):
    """A path in the box cannot be read or written as asked (`code` is the errno); the box itself is fine."""

    def __init__(self, message: str, *, code: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.code = code
