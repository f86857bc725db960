"""`mimo run`: the whole recipe, or the stages that are named."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import click

from commands.lasting import outlive_reader
from commands.live import MODES, BarView, choose_view
from commands.options import fresh_option, json_option, recipe_options
from commands.render import output, plan_table, summary
from mimo.pipeline.plan import Selection
from mimo.pipeline.project import Project, Request, open_project
from mimo.pipeline.run import Tools, run_recipe

progress_option = click.option(
    "--progress",
    type=click.Choice(MODES),
    default="auto",
    help="Live view: bars on a terminal, heartbeat lines elsewhere (auto), or one of them, or none.",
)


@click.command()
@recipe_options
@json_option
@progress_option
@click.option("--from", "start", metavar="STAGE", help="Run this stage again and what depends on it.")
@click.option("--until", metavar="STAGE", help="Stop after this stage.")
@click.option("--only", multiple=True, metavar="STAGE", help="Only this stage. Repeatable.")
@click.option(
    "--force",
    multiple=True,
    metavar="STAGE",
    help="Start this stage over; an interrupted --force goes on. Repeatable.",
)
@fresh_option
@click.option("--dry-run", is_flag=True, help="Print the plan; nothing runs.")
def run(
    recipe: Path,
    profile: str | None,
    overrides: tuple[str, ...],
    *,
    as_json: bool,
    progress: str,
    start: str | None,
    until: str | None,
    only: tuple[str, ...],
    force: tuple[str, ...],
    fresh: bool,
    dry_run: bool,
) -> None:
    """Run a recipe end to end; print what is reused, what runs, and why."""
    selection = Selection(start=start, until=until, only=only, force=force, fresh=fresh)
    request = Request(recipe=recipe, profile=profile, overrides=overrides, selection=selection)
    project = open_project(request)
    if dry_run:
        show_plan(project, as_json=as_json)
    else:
        run_and_report(project, progress=progress, as_json=as_json)


def show_plan(project: Project, *, as_json: bool) -> None:
    """Print the plan; nothing runs."""
    plan = project.plan()
    if as_json:
        click.echo(json.dumps({"profile": project.profile, **plan.as_json()}))
        return
    click.echo(_profile_line(project), err=True)
    output().print(plan_table(plan))


def run_and_report(project: Project, *, progress: str, as_json: bool) -> None:
    """Run, watch, print the summary; raise what ended the run early."""
    outlive_reader()
    if not as_json:
        click.echo(_profile_line(project), err=True)
    view = choose_view(progress, as_json=as_json, heartbeat_s=project.recipe.runtime.heartbeat_s)
    with view if isinstance(view, BarView) else nullcontext():
        report = run_recipe(project, Tools(observer=view))
    if as_json:
        click.echo(json.dumps({"event": "report", **report.as_json()}))
    else:
        output().print(summary(report))
    if report.error is not None:
        raise report.error


def _profile_line(project: Project) -> str:
    why = f" ({project.why})" if project.why else ""
    return f"{project.resolved.path.name}, profile {project.profile or 'none'}{why}"
