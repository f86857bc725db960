"""`mimo track sync`: MLflow rebuilt from the files of runs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from commands.options import json_option, verbose_option
from mimo.run_dir.home import Home, find_home


@click.group()
def track() -> None:
    """Work with the MLflow copy of runs."""


@track.command()
@click.argument("what", metavar="[RUN|RECIPE]", required=False)
@json_option
@verbose_option
def sync(what: str | None, as_json: bool) -> None:
    """Rebuild MLflow from the files of one run, of all runs of a recipe, or of all runs."""
    from mimo.recipe.environment import resolve_env
    from mimo.tracking.sync import sync_run

    home, runs = _runs(what)
    for run in runs:
        report = sync_run(home.root, run, resolve_env)
        if as_json:
            click.echo(json.dumps({"schema": 1, **asdict(report)}))
            continue
        click.echo(f"{run}: {report.points} points and {report.traces} traces sent to {report.location}")
        for name in report.restored:
            click.echo(f"  restored: {name} was deleted in MLflow")
        for line in report.left_out:
            click.echo(f"  left out: {line}", err=True)
    if not runs and not as_json:
        click.echo(f"no tracked runs in {home.root}")


def _runs(what: str | None) -> tuple[Home, list[str]]:
    from mimo.tracking.sync import tracked_runs

    home = find_home(Path(what or "recipe.yaml"))
    if what is not None and not what.endswith((".yaml", ".yml")):
        return home, [what]
    runs = tracked_runs(home.root)
    return home, runs if what is None else [run for run in runs if _of_recipe(home, run, Path(what))]


def _of_recipe(home: Home, run: str, recipe: Path) -> bool:
    from mimo.tracking.sync import run_info

    told = str(run_info(home.root, run).get("recipe", ""))
    return told in (str(recipe), str(recipe.resolve()), recipe.stem)
