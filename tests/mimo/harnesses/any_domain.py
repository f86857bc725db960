"""A harness by its dotted path that supports every domain."""

from __future__ import annotations

from typing import ClassVar

from mimo.harnesses.edit_lines import EditLines
from mimo.types import Domain


class AnyDomain(EditLines):
    """As edit-lines, for tasks of any domain."""

    name: ClassVar[str] = "any-domain"
    domains: ClassVar[tuple[Domain, ...]] = ("coding", "agent", "visual", "cyber")
