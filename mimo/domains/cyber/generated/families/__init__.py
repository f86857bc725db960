"""All bug families by name, the training ones first."""

from __future__ import annotations

from mimo.domains.cyber.generated.families import arithmetic, heap, heldout, objects, places
from mimo.domains.cyber.generated.plant import Family

FAMILIES: dict[str, Family] = {
    entry.name: entry for module in (heap, places, arithmetic, objects, heldout) for entry in module.FAMILIES
}
