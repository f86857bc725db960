"""Every family of pictures by name: those to train on, and those held out."""

from __future__ import annotations

from mimo.domains.visual.families import drawings, heldout, others
from mimo.domains.visual.family import Family

FAMILIES: dict[str, Family] = {
    entry.name: entry for module in (drawings, others, heldout) for entry in module.FAMILIES
}
