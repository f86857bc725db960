"""Where a generated function lives: file names, packages, and neighbours in the same file."""

from __future__ import annotations

import random
from dataclasses import dataclass

from mimo.domains.coding.generated.family import Spelling

_NEIGHBOURS = (
    '''\
def is_blank(text):
    """Return True if text has nothing but spaces."""
    return not text.strip()
''',
    '''\
def double(number):
    """Return number times two."""
    return number + number
''',
    '''\
def swap(pair):
    """Return the pair with its two items exchanged."""
    return (pair[1], pair[0])
''',
    '''\
def join_words(words):
    """Return the words as one line."""
    return " ".join(words)
''',
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
        neighbour = rng.choice([text for text in _NEIGHBOURS if f"def {spelling.function}(" not in text])
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
