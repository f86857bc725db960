"""The options that commands share, as decorators: RECIPE, --profile, --set, --json, -v."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

import click

P = ParamSpec("P")
R = TypeVar("R")

recipe_argument = click.argument("recipe", type=click.Path(path_type=Path))
"""RECIPE: a YAML file, or the name of a shipped recipe (`pro`, `flash`). The loader looks for it."""

profile_option = click.option(
    "--profile", metavar="NAME", help="Profile of the recipe; without it the machine decides."
)
set_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set one recipe key (dotted; the value is YAML). Repeatable.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
fresh_option = click.option("--fresh", is_flag=True, help="Leave out unfinished work of earlier starts.")
verbose_option = click.option(
    "-v", "--verbose", is_flag=True, expose_value=False, help="Show the traceback of an error."
)


def recipe_options(command: Callable[P, R]) -> Callable[P, R]:
    """RECIPE, --profile, --set and -v in one: the function gets `recipe`, `profile` and `overrides`."""
    for option in (verbose_option, set_option, profile_option, recipe_argument):
        command = option(command)
    return command


def read_options(command: Callable[P, R]) -> Callable[P, R]:
    """What every command that reads takes: `recipe_options` and --json (`as_json`)."""
    return recipe_options(json_option(command))
