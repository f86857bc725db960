"""Distil teachers into the student, with teacher and SFT prefixes. Not built yet."""

from __future__ import annotations

from typing import ClassVar

from mimo.stages.not_built import NotBuilt


class Mopd2(NotBuilt):
    """Distil teachers into the student, with teacher and SFT prefixes."""

    name: ClassVar[str] = "mopd2"
    summary: ClassVar[str] = "Distil teachers into the student, with teacher and SFT prefixes."
