"""Try each task several times, route it to GRS or GAR, write rubrics from the contrast. Not built yet."""

from __future__ import annotations

from typing import ClassVar

from mimo.stages.not_built import NotBuilt


class SynthesizeRubrics(NotBuilt):
    """Try each task several times, route it to GRS or GAR, write rubrics from the contrast."""

    name: ClassVar[str] = "synthesize-rubrics"
    summary: ClassVar[str] = (
        "Try each task several times, route it to GRS or GAR, write rubrics from the contrast."
    )
