"""`mimo plan`: what a recipe would do, what it needs and what it costs; nothing runs."""

from __future__ import annotations

import json
from pathlib import Path

import click

from commands.options import read_options
from commands.plan_tables import plan_view
from commands.render import output
from mimo.errors import MachineLacks, PlanHasWork
from mimo.pipeline.forecast import Forecast


@click.command()
@read_options
@click.option("--check", is_flag=True, help="End with 69 if it cannot run here as written, 3 if it has work.")
def plan(
    recipe: Path, profile: str | None, overrides: tuple[str, ...], *, as_json: bool, check: bool
) -> None:
    """Say what a recipe would do, needs and costs: memory, tokens, disk, hours, USD; nothing runs.

    Everything that is not in the recipe is an assumption and is listed; docs/plan.md has the formulas.
    """
    from mimo.pipeline.forecast import forecast
    from mimo.pipeline.project import Request, open_project

    project = open_project(Request(recipe=recipe, profile=profile, overrides=overrides), latest=True)
    found = forecast(project)
    if as_json:
        click.echo(json.dumps(found.as_json()))
    else:
        output().print(plan_view(found))
    if check:
        _check(found, recipe)


def _check(found: Forecast, recipe: Path) -> None:
    """Nothing to say: it fits and is done.

    Raises:
        MachineLacks: it cannot run here as it is written.
        PlanHasWork: it can, and there is something to do.
    """
    stops = [*found.lacks, *(item.what for item in found.estimate.problems if item.stops)]
    if stops:
        raise MachineLacks(
            f"{recipe} cannot run here as it is written: {'; '.join(stops)}",
            hint="what to change stands above; `mimo doctor` says what this machine has",
        )
    if waiting := found.to_do():
        raise PlanHasWork(f"{len(waiting)} stages have work: {', '.join(waiting)}", hint=f"mimo run {recipe}")
