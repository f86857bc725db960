"""A recipe file, a profile and overrides as one checked recipe that knows where each key came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mimo.recipe.checks import check
from mimo.recipe.layers import lay, profile_names, read_layers
from mimo.recipe.models import Recipe
from mimo.recipe.paths import absolute_paths
from mimo.recipe.problems import Origin, Problem, hide_passwords, refuse
from mimo.recipe.yaml_tree import Value, dump_yaml, parse_yaml, put, unknown_name


@dataclass(frozen=True, kw_only=True, slots=True)
class ResolvedRecipe:
    """A checked recipe; `origins` maps each dotted key (`tasks.sources.0.seed`) to where it was written."""

    model: Recipe
    origins: dict[str, Origin]
    profile: str | None
    """The profile laid on it; None = the recipe without any."""
    path: Path
    """The file the user named, absolute."""
    profiles: tuple[str, ...]
    """Every profile the recipe has."""
    files: tuple[Path, ...]
    """Every file that was read, parents first, absolute."""

    def resolved_yaml(self) -> str:
        """The whole recipe as one YAML file without `extends` and profiles; references stay references."""
        note = f"# Written by mimo from {self.path.name}, profile {self.profile or 'none'}.\n"
        return note + dump_yaml(self.model.data())


def load_recipe(
    path: Path | str, *, profile: str | None = None, overrides: Sequence[str] = ()
) -> ResolvedRecipe:
    """The recipe at `path` (a file, or the bare name of a shipped recipe) with a profile and overrides.

    Args:
        profile: laid over the files' own keys; None = none is.
        overrides: `a.b=c` texts, laid on top in their order; the value is YAML.

    Raises:
        RecipeError: no such file or profile, or anything wrong in the files or overrides; all at once.
    """
    chain = read_layers(Path(path))
    known = profile_names(chain.layers)
    problems, whole = list(chain.problems), chain.whole
    if whole and profile is not None and profile not in known:
        whole = False
        problems.append(Problem(Origin(f"--profile {profile}"), "", unknown_name(profile, known)))
    tree, wrong_overrides = _override(lay(chain.layers, profile), overrides)
    problems += wrong_overrides
    tree = absolute_paths(tree)
    recipe, wrong = check(tree) if whole else (None, [])
    problems += wrong
    if problems or recipe is None:
        raise refuse(problems)
    files = tuple(layer.path.resolve() for layer in chain.layers)
    origins = {key: value.origin for key, value in tree.walk()}
    return ResolvedRecipe(
        model=recipe, origins=origins, profile=profile, path=files[-1], profiles=known, files=files
    )


def recipe_profiles(path: Path | str) -> tuple[str, ...]:
    """The profiles of a recipe, without checking its keys.

    Raises:
        RecipeError: no such file, or it cannot be read as YAML.
    """
    chain = read_layers(Path(path))
    if not chain.whole:
        raise refuse(chain.problems)
    return profile_names(chain.layers)


def _override(tree: Value, overrides: Sequence[str]) -> tuple[Value, list[Problem]]:
    problems: list[Problem] = []
    for text in overrides:
        origin = Origin(hide_passwords(f"--set {text}"))
        dotted, equals, written = text.partition("=")
        keys = dotted.strip().split(".")
        if not equals or not all(keys):
            problems.append(Problem(origin, "", "write KEY=VALUE, for example rl_mixed.steps=4"))
            continue
        value, wrong = parse_yaml(written, str(origin), fixed=origin)
        problems += wrong
        if wrong:
            continue  # nothing is set: what the value's absence would break is no news
        try:
            tree = put(tree, keys, value)
        except LookupError as error:
            problems.append(Problem(origin, dotted, str(error.args[0])))
    return tree, problems
