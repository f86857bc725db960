"""Where a generated function lives: file names, packages, and neighbours in the same file."""

from __future__ import annotations

import random
from dataclasses import dataclass

from mimo.domains.coding.generated.family import Spelling

_NEIGHBOURS = (
    (
        "is_blank",
        'def is_blank(text):\n    """Return True if text has nothing but spaces."""\n    return not text.strip()\n',
    ),
    ("double", 'def double(number):\n    """Return number times two."""\n    return number + number\n'),
    (
        "swap",
        'def swap(pair):\n    """Return the pair with its two items exchanged."""\n    return (pair[1], pair[0])\n',
    ),
    (
        "join_words",
        'def join_words(words):\n    """Return the words as one line."""\n    return " ".join(words)\n',
    ),
)
_PACKAGES = ("core", "toolkit", "app", "lib")


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """Paths in the repository and the text around the function; `offset` lines come before it."""

    module_path: str
    test_path: str
    import_from: str
    before: str
    after: str
    package: str | None

    @property
    def offset(self) -> int:
        """Number of lines before the function."""
        return self.before.count("\n")

    def module(self, source: str) -> str:
        """The whole module with `source` in its place."""
        return self.before + source + self.after


def pick_layout(rng: random.Random, spelling: Spelling, level: int) -> Layout:
    """Level 1: one flat module with the function alone. Level 2: packages and a neighbour, by the draw."""
    package = rng.choice(_PACKAGES) if level > 1 and rng.random() < 0.5 else None
    before = after = ""
    if level > 1 and rng.random() < 0.6:
        neighbour = rng.choice([text for name, text in _NEIGHBOURS if name != spelling.function])
        if rng.random() < 0.5:
            before = neighbour + "\n\n"
        else:
            after = "\n\n" + neighbour
    name = spelling.module
    return Layout(
        module_path=f"{package}/{name}.py" if package else f"{name}.py",
        test_path=f"tests/test_{name}.py" if package else f"test_{name}.py",
        import_from=f"{package}.{name}" if package else name,
        before=before,
        after=after,
        package=package,
    )
