"""Probe every environment for leaks, scrub and probe again until clean. Not built yet."""

from __future__ import annotations

from typing import ClassVar

from mimo.stages.not_built import NotBuilt


class ProbeHacks(NotBuilt):
    """Probe every environment for leaks, scrub and probe again until clean."""

    name: ClassVar[str] = "probe-hacks"
    summary: ClassVar[str] = "Probe every environment for leaks, scrub and probe again until clean."
