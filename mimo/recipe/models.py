"""The recipe as typed, frozen models (being built)."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Recipe(BaseModel):
    """A resolved recipe."""

    model_config = ConfigDict(extra="forbid", frozen=True)
