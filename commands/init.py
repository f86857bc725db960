"""`mimo init DIR`: a project of one's own."""

from __future__ import annotations

import json
from pathlib import Path

import click

from commands.options import json_option, verbose_option


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@json_option
@verbose_option
def init(folder: Path, as_json: bool) -> None:
    """Make a project of one's own in DIR: a recipe, a first task, a README; nothing is replaced."""
    from mimo.recipe.project import RECIPE, init_project

    made = init_project(folder)
    if as_json:
        about = {"schema": 1, "recipe": str(folder / RECIPE), "files": [str(path) for path in made]}
        click.echo(json.dumps(about))
        return
    for path in made:
        click.echo(str(path))
    click.echo(f"\ntry it: mimo run {folder / RECIPE} --profile smoke --until prepare-env")
