"""A box that runs commands: no network, limits that kill, a private copy of a snapshot. Imports nothing of
ours."""

from __future__ import annotations

import importlib
import logging
from typing import cast

from sandbox.base import BoxLimits, BoxSpec, Changes, ExecResult, FileChange, Sandbox
from sandbox.errors import SandboxError, SandboxFileError, SandboxLimit, SandboxLost, SandboxUnavailable

BACKENDS = {"local": "sandbox.local:LocalBox", "docker": "sandbox.docker:DockerBox"}
"""Name of a back end to `module:class`, imported when first used."""
logging.getLogger(__name__).addHandler(logging.NullHandler())  # who listens decides what is shown


def open_sandbox(backend: str, spec: BoxSpec) -> Sandbox:
    """An open box; use it in a `with` statement or call `close`.

    Raises:
        SandboxUnavailable: this machine cannot run the back end; the hint says what to install or allow.
        SandboxError: the box could not be made (no such back end, bad root file system, ...).
    """
    if backend not in BACKENDS:
        raise SandboxError(f"no sandbox back end {backend!r}", hint=f"known: {', '.join(sorted(BACKENDS))}")
    module, _, name = BACKENDS[backend].partition(":")
    return cast(Sandbox, getattr(importlib.import_module(module), name)(spec))


__all__ = [
    "BACKENDS",
    "BoxLimits",
    "BoxSpec",
    "Changes",
    "ExecResult",
    "FileChange",
    "Sandbox",
    "SandboxError",
    "SandboxFileError",
    "SandboxLimit",
    "SandboxLost",
    "SandboxUnavailable",
    "open_sandbox",
]
