"""`mimo recipe check|show|schema`: a recipe without running anything."""

from __future__ import annotations

import json
from pathlib import Path

import click

from commands.options import read_options


@click.group()
def recipe() -> None:
    """Check, show or describe a recipe; nothing runs."""


@recipe.command()
@read_options
def check(recipe: Path, profile: str | None, overrides: tuple[str, ...], as_json: bool) -> None:
    """Check RECIPE: with --profile that one, without it the recipe and every profile it has."""
    from mimo.recipe.machine import machine_lacks, this_machine
    from mimo.recipe.overview import load_all

    machine = this_machine()
    resolved = load_all(recipe, profile=profile, overrides=overrides)
    rows = [(one.profile, machine_lacks(one.model, one.profile, machine)) for one in resolved]
    if as_json:
        found = [{"profile": name, "runs_here": not lacks, "lacks": lacks} for name, lacks in rows]
        click.echo(json.dumps({"schema": 1, "recipe": resolved[0].model.name, "profiles": found}))
        return
    click.echo(f"{recipe}: {resolved[0].model.name} is a valid recipe")
    for name, lacks in rows:
        click.echo(f"  {name or '(no profile)'}: {'; '.join(lacks) if lacks else 'can run here'}")


@recipe.command()
@click.option("--origin", is_flag=True, help="Show where each key was written.")
@read_options
def show(recipe: Path, profile: str | None, overrides: tuple[str, ...], as_json: bool, origin: bool) -> None:
    """Print RECIPE as it runs: extends, profile and overrides resolved; references stay references."""
    from mimo.recipe.machine import load_for_machine
    from mimo.recipe.overview import origin_lines

    resolved, reason = load_for_machine(recipe, profile=profile, overrides=overrides)
    if reason:
        click.echo(f"profile {resolved.profile or 'none'}: {reason}", err=True)
    if as_json:
        origins = {key: str(where) for key, where in resolved.origins.items()}
        data = {"schema": 1, "profile": resolved.profile, "recipe": resolved.model.data(), "origins": origins}
        click.echo(json.dumps(data))
    elif origin:
        for line in origin_lines(resolved):
            click.echo(line)
    else:
        click.echo(resolved.resolved_yaml(), nl=False)


@recipe.command()
def schema() -> None:
    """Print the JSON schema of a recipe file, for editors that complete and check YAML."""
    from mimo.recipe.schema import json_schema

    click.echo(json.dumps(json_schema(), indent=2))
