"""The self-check that every back end passes: named checks, each given a function that opens boxes.

for result in run("local", rootfs, work):
    print(result.name, result.error or "ok")
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox.conformance import commands, endings, files, isolation, resources
from sandbox.conformance.opener import Opener
from sandbox.errors import SandboxError

Check = Callable[[Opener], None]
CHECKS: dict[str, Check] = {
    check.__name__.removeprefix("check_"): check
    for module in (commands, isolation, resources, files, endings)
    for check in module.CHECKS
}
"""Name to check. A check raises AssertionError with what is wrong, or SandboxError."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckResult:
    """One check: `error` is None where it passed."""

    name: str
    title: str
    error: str | None
    seconds: float


def run(backend: str, rootfs: Path, work: Path, names: Sequence[str] | None = None) -> Iterator[CheckResult]:
    """The result of every check, in order, as each ends.

    Args:
        backend: name of the back end.
        rootfs: made by `sandbox.rootfs.ensure_rootfs`.
        work: an existing folder for snapshots and state; the caller removes it.
        names: only these checks.
    """
    opener = Opener(backend, rootfs, work)
    for name in names or CHECKS:
        started = time.monotonic()
        error = None
        try:
            CHECKS[name](opener)
        except (AssertionError, SandboxError) as failure:
            error = str(failure) or traceback.format_exception(failure)[-2].strip()
        title = (CHECKS[name].__doc__ or "").strip().splitlines()[0]
        yield CheckResult(name=name, title=title, error=error, seconds=time.monotonic() - started)


__all__ = ["CHECKS", "Check", "CheckResult", "Opener", "run"]
