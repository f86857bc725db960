"""Commands that look at a recipe or steer its run: status, explain, logs, stop, accept."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from commands.options import read_options, recipe_options
from commands.render import causes_view, clean, output, standing_view
from mimo.errors import RecipeError
from mimo.pipeline.project import Project, Request, open_project

_WATCH_S = 2.0
_FOLLOW_S = 0.3
stage_argument = click.argument("stage")


def _open(recipe: Path, profile: str | None, overrides: tuple[str, ...]) -> Project:
    request = Request(recipe=recipe, profile=profile, overrides=overrides)
    return open_project(request, latest=True)


@click.command()
@read_options
@click.option("--watch", is_flag=True, help="Again every two seconds, until Ctrl-C.")
def status(
    recipe: Path, profile: str | None, overrides: tuple[str, ...], *, as_json: bool, watch: bool
) -> None:
    """Show the stages of a recipe, its newest run, and who runs it."""
    from mimo.pipeline.status import standing

    while True:
        project = _open(recipe, profile, overrides)
        now = standing(project)
        if watch and not as_json:
            click.clear()
        if as_json:
            click.echo(json.dumps(now.as_json()))
        else:
            output().print(standing_view(now, f"{recipe} (profile {project.profile or 'none'})"))
        if not watch:
            return
        time.sleep(_WATCH_S)


@click.command()
@stage_argument
@read_options
def explain(
    stage: str, recipe: Path, profile: str | None, overrides: tuple[str, ...], *, as_json: bool
) -> None:
    """Say why a stage would run or not: what changed, root cause first."""
    from mimo.pipeline.explain import explain as explain_stage

    causes = explain_stage(_open(recipe, profile, overrides), stage)
    if as_json:
        click.echo(json.dumps({"schema": 1, "causes": [cause.as_json() for cause in causes]}))
    else:
        output().print(causes_view(causes))


@click.command()
@stage_argument
@recipe_options
@click.option("-f", "--follow", is_flag=True, help="Go on printing while the stage runs.")
@click.option("-n", "--lines", default=0, help="Only the last lines; 0 = all.")
def logs(
    stage: str, recipe: Path, profile: str | None, overrides: tuple[str, ...], *, follow: bool, lines: int
) -> None:
    """Print what a stage printed."""
    from mimo.pipeline.status import log_file
    from mimo.run_dir.locks import holder

    project = _open(recipe, profile, overrides)
    path = log_file(project, stage)
    if path is None:
        raise RecipeError(f"stage {stage} has no log yet", hint=f"`mimo status {recipe}` says how it stands")
    shown = path.read_text(errors="replace").splitlines()
    for line in shown[-lines:] if lines else shown:
        click.echo(clean(line))
    if follow:
        for line in _new_lines(path, lambda: holder(project.lock) is not None):
            click.echo(clean(line))


def _new_lines(path: Path, alive: Callable[[], bool]) -> Iterator[str]:
    """Lines added to the file from now on, until no run is alive (the open file outlives a rename)."""
    with open(path, errors="replace") as file:
        file.seek(0, 2)
        while True:
            line = file.readline()
            if line:
                yield line.rstrip("\n")
            elif alive():
                time.sleep(_FOLLOW_S)
            else:
                return


@click.command()
@recipe_options
@click.option("--timeout", "timeout_s", type=float, help="Seconds to wait; without it until it has ended.")
def stop(recipe: Path, profile: str | None, overrides: tuple[str, ...], *, timeout_s: float | None) -> None:
    """Stop a running recipe at its next safe point and wait until it has ended."""
    from mimo.pipeline.stop import stop as stop_run

    project = _open(recipe, profile, overrides)
    pid = stop_run(project, timeout_s=timeout_s)
    if pid is None:
        click.echo(f"{recipe} (profile {project.profile or 'none'}) is not running")
    else:
        click.echo(f"stopped process {pid} at a safe point (its exit code is 75)")
        click.echo(f"go on: {project.command()}")


@click.command()
@stage_argument
@recipe_options
def accept(stage: str, recipe: Path, profile: str | None, overrides: tuple[str, ...]) -> None:
    """Keep a finished result although the code of its stage changed."""
    from mimo.pipeline.accept import accept as accept_result

    kept = accept_result(_open(recipe, profile, overrides), stage)
    click.echo(f"{stage}: the result of {kept.manifest.run} stands for the code as it is now")
