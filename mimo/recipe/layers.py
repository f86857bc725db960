"""The files of a recipe in the order in which they are laid on each other: `extends`, then profiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mimo.recipe.problems import Origin, Problem, did_you_mean, refuse
from mimo.recipe.yaml_tree import Value, merge, parse_yaml

PLUMBING = ("extends", "profiles")
"""Keys of a file that say how it is put together; they are no keys of the recipe."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One file: its own keys, and its profiles by name (None: the file has no such mapping)."""

    path: Path
    keys: Value
    profiles: Mapping[str, Value]


@dataclass
class Chain:
    """A file and everything it extends, parents first, and what is wrong with how they are written."""

    layers: list[Layer] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    whole: bool = True
    """False: a file is missing or unreadable, so that missing keys would be no news."""

    def read(self, path: Path, shown: str, wanted: Problem | None, above: tuple[Path, ...]) -> None:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            what = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
            self._broken(wanted or Problem(Origin(shown), "", str(what)))
            return
        root, problems = parse_yaml(text, shown)
        self.problems += problems
        entries = root.entries()
        if entries is None:
            self.whole = False
            if not problems:
                what = "is empty" if root.content is None else "a recipe is a mapping of keys"
                self._broken(Problem(root.origin, "", what))
            return
        for name in self._parents(entries.get("extends")):
            self._extend(name, path, shown, (*above, path.resolve()))
        keys = {key: value for key, value in entries.items() if key not in PLUMBING}
        self.layers.append(Layer(path, Value(root.origin, keys), self._profiles(entries.get("profiles"))))

    def _broken(self, problem: Problem) -> None:
        self.whole = False
        self.problems.append(problem)

    def _parents(self, extends: Value | None) -> list[Value]:
        if extends is None or extends.content is None:
            return []
        names = [extends] if isinstance(extends.content, str) else extends.items()
        if names is None or not all(isinstance(name.content, str) for name in names):
            self._broken(Problem(extends.origin, "extends", "is a file name or a list of file names"))
            return []
        return list(names)

    def _extend(self, name: Value, path: Path, shown: str, above: tuple[Path, ...]) -> None:
        text = str(name.content)
        parent = find_recipe(path.parent / text, text)
        if parent.resolve() in above:
            loop = [*above[above.index(parent.resolve()) :], parent.resolve()]
            cycle = " -> ".join(file.name for file in loop)
            self._broken(Problem(name.origin, "extends", f"cycle: {cycle}"))
            return
        what = f"{text!r} is no file beside {shown} and no shipped recipe ({', '.join(shipped_recipes())})"
        named = str(Path(shown).parent / text) if parent == path.parent / text else str(parent)
        self.read(parent, named, Problem(name.origin, "extends", what), above)

    def _profiles(self, profiles: Value | None) -> dict[str, Value]:
        if profiles is None or profiles.content is None:
            return {}
        entries = profiles.entries()
        if entries is None:
            self.problems.append(Problem(profiles.origin, "profiles", "is a mapping of profile names"))
            return {}
        found: dict[str, Value] = {}
        for name, value in entries.items():
            overlay = Value(value.origin, {}) if value.content is None else value
            below = overlay.entries()
            if below is None:
                self.problems.append(Problem(value.origin, f"profiles.{name}", "is a mapping of recipe keys"))
                continue
            for key in sorted(set(below) & set(PLUMBING)):
                what = "stands at the top of a file, not in a profile"
                self.problems.append(Problem(below[key].origin, f"profiles.{name}.{key}", what))
            found[name] = Value(overlay.origin, {k: v for k, v in below.items() if k not in PLUMBING})
        return found


def shipped_recipes() -> tuple[str, ...]:
    """Names of the recipes that come with the package."""
    return tuple(sorted(path.stem for path in _shipped_folder().glob("*.yaml")))


def _shipped_folder() -> Path:
    """The package `recipes` beside ours: never one of the same name in the user's folder."""
    return Path(__file__).parents[2] / "recipes"


def find_recipe(path: Path, name: str) -> Path:
    """`path` if it is there; else the shipped recipe that the bare `name` (`pro`, `pro.yaml`) stands for."""
    if not path.is_file() and "/" not in name:
        shipped = _shipped_folder() / (name if name.endswith(".yaml") else f"{name}.yaml")
        if shipped.is_file():
            return shipped
    return path


def read_layers(path: Path) -> Chain:
    """The file at `path` and all it extends.

    Raises:
        RecipeError: there is no such file.
    """
    found = find_recipe(path, str(path))
    if not found.is_file():
        names = shipped_recipes()
        guess = did_you_mean(path.stem, names) if "/" not in str(path) else ""
        what = "is a folder, not a recipe" if found.is_dir() else f"no such recipe{guess}"
        raise refuse(
            [Problem(Origin(str(path)), "", what)], hint=f"name a YAML file, or one of {', '.join(names)}"
        )
    chain = Chain()
    chain.read(found, str(path if found == path else found), None, ())
    return chain


def profile_names(layers: list[Layer]) -> tuple[str, ...]:
    """Every profile of the files, in the order of their first mention."""
    return tuple(dict.fromkeys(name for layer in layers for name in layer.profiles))


def lay(layers: list[Layer], profile: str | None) -> Value:
    """All keys laid on each other: the files' own, parents first, then their profiles, parents first."""
    whole: Value | None = None
    for value in _overlays(layers, profile):
        whole = merge(whole, value)
    return Value(layers[-1].keys.origin, whole.content) if whole else Value(Origin(""), {})


def _overlays(layers: list[Layer], profile: str | None) -> Iterator[Value]:
    yield from (layer.keys for layer in layers)
    yield from (layer.profiles[profile] for layer in layers if profile and profile in layer.profiles)
