"""What `mimo plan` finds in the way."""

from __future__ import annotations

from dataclasses import dataclass

from mimo.types import Json


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """What keeps the recipe from running as it is written (`stops`), or makes it slow; and what to change."""

    what: str
    change: str
    stops: bool = True

    def as_json(self) -> dict[str, Json]:
        """The same as JSON data."""
        return {"what": self.what, "change": self.change, "stops": self.stops}
