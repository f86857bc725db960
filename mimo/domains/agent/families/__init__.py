"""Every family of workspace tasks by name: 12 to train on, 4 held out."""

from __future__ import annotations

from mimo.domains.agent.families import context, files, heldout, tables
from mimo.domains.agent.family import Family

FAMILIES: dict[str, Family] = {
    entry.name: entry for module in (files, tables, context, heldout) for entry in module.FAMILIES
}
