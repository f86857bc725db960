"""What a leak route is: its ids, the probe that finds it open, the rule that closes it, the sign that it
was used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from mimo.types import LeakFinding

if TYPE_CHECKING:
    from mimo.hacks.actions import Action
    from mimo.hacks.scene import Scene
    from mimo.hacks.scrub import Scrub

Severity = Literal["info", "leak", "critical"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """An open route: where, and the bytes that prove it (only their digest is ever written down).

    `path` is relative to the work tree, absolute in the box, or `env:NAME`, `net:TARGET`; layers that
    had to be
    decoded follow after `!` (`dist/a.whl!pkg/mod.py`). `info` is reported and does not count as a leak.
    """

    route: str
    path: str
    evidence: bytes
    severity: Severity = "leak"

    def record(self) -> LeakFinding:
        """As it is written to `leaks.jsonl`."""
        digest = hashlib.sha256(self.evidence).hexdigest()
        path = self.path.encode("utf-8", "backslashreplace").decode()
        return LeakFinding(route=self.route, path=path, evidence_sha256=digest, severity=self.severity)


Probe = Callable[["Scene"], Iterable[Found]]
"""Findings of one route in a scene; deterministic."""
ScrubRule = Callable[["Scrub", Found], str]
"""Closes one finding on a copy and says what it did; what needs git or a new snapshot is noted on the
Scrub.
"""
Signature = Callable[["Action"], str | None]
"""The id of the route that an action of a rollout takes, or None."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Route:
    """A route, or a few ids of one mechanism. A part that does not exist is None: prevented, or audit
    only.
    """

    ids: tuple[str, ...]
    title: str
    probe: Probe | None = None
    scrub: ScrubRule | None = None
    signature: Signature | None = None
