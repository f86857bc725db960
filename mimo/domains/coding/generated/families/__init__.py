"""Every function family, by theme; `heldout` holds the ones that only evaluation sees."""

from __future__ import annotations

from mimo.domains.coding.generated.families import heldout, mappings, numbers, sequences, text
from mimo.domains.coding.generated.family import Family

FAMILIES: dict[str, Family] = {
    entry.name: entry for theme in (numbers, sequences, text, mappings, heldout) for entry in theme.FAMILIES
}
