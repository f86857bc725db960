"""Names to classes, imported late: a table of `name -> "package.module:attribute"`."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping

from mimo.errors import RecipeError


class Registry:
    """A named table of lazily imported objects; a dotted path `package.module:attribute` works too."""

    def __init__(self, kind: str, entries: Mapping[str, str]) -> None:
        self.kind = kind
        self._entries = dict(entries)

    def names(self) -> tuple[str, ...]:
        """The known names, in the order they were written down."""
        return tuple(self._entries)

    def load(self, name: str) -> object:
        """The object behind `name`.

        Raises:
            RecipeError: unknown name (the known ones and the nearest are listed) or a bad dotted path.
        """
        target = self._entries.get(name, name if ":" in name else None)
        if target is None:
            close = difflib.get_close_matches(name, self._entries, n=1)
            guess = f" (did you mean {close[0]!r}?)" if close else ""
            raise RecipeError(
                f"unknown {self.kind} {name!r}{guess}",
                hint=f"known: {', '.join(self._entries)}; or a dotted path like package.module:Class",
            )
        module, _, attribute = target.partition(":")
        try:
            return getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise RecipeError(f"{self.kind} {name!r}: cannot load {target!r}: {error}") from error
