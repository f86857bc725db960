"""`mimo gc`: free the space of what nothing needs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from commands.options import json_option, verbose_option
from commands.render import gc_table, output, size
from mimo.errors import RecipeError
from mimo.pipeline.gc import removable, remove
from mimo.recipe.layers import find_recipe
from mimo.run_dir.home import find_home


@click.command()
@click.argument("recipe", type=click.Path(path_type=Path), required=False)
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@click.option("--keep-runs", type=click.IntRange(1), default=3, show_default=True, help="Of each recipe.")
@click.option(
    "--yes", is_flag=True, help="Do not ask; without it nothing is removed where nobody can be asked."
)
@json_option
@verbose_option
def gc(recipe: Path | None, *, dry_run: bool, keep_runs: int, yes: bool, as_json: bool) -> None:
    """Remove what no kept run needs; sizes are shown first.

    Of the state folder of RECIPE; without it, of the current folder's.
    """
    file = find_recipe(recipe, str(recipe)) if recipe else Path.cwd() / "recipe.yaml"
    home = find_home(file)
    items = removable(home, keep_runs=keep_runs)
    if as_json:
        rows = [item.as_json() for item in items]
        click.echo(json.dumps({"schema": 1, "home": str(home.root), "items": rows}))
    else:
        click.echo(f"state folder {home.root}", err=True)
        output().print(gc_table(items))
    if dry_run or not items:
        return
    if not yes:
        if as_json or not sys.stdin.isatty():
            raise RecipeError("nothing was removed: nobody can be asked here", hint="add --yes, or --dry-run")
        click.confirm("remove them?", abort=True)
    freed = sum(item.size for item in items if remove(home, item))
    click.echo(f"freed {size(freed)}", err=True)
