"""What every part of a recipe shares: frozen, unknown keys refused, documented under each field."""

from __future__ import annotations

from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field


class Section(BaseModel):
    """A mapping of the recipe. Fields have no defaults: `recipes/base.yaml` sets every one."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, strict=True)


_T = TypeVar("_T")
Many = Annotated[tuple[_T, ...], Field(strict=False)]
"""A YAML list; a tuple in the model."""
Count = Annotated[int, Field(ge=1)]
"""A number of things, at least one."""
Whole = Annotated[int, Field(ge=0)]
"""A number of things, possibly none."""
Share = Annotated[float, Field(ge=0.0, le=1.0)]
"""A fraction of the whole, 0 to 1."""
Positive = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]
"""A number above 0."""
NonNegative = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
"""A number of 0 or more."""
