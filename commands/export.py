"""`mimo export model|data`: what a run made, taken out of the store."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from commands.options import json_option, profile_option, verbose_option
from commands.render import size

if TYPE_CHECKING:
    from mimo.pipeline.export import Exported


@click.group()
def export() -> None:
    """Take a trained policy, or rollouts, out of a run."""


def _arguments(command: Callable[..., None]) -> Callable[..., None]:
    """RUN STAGE --out DIR --profile --json -v."""
    out = click.option(
        "--out", required=True, type=click.Path(path_type=Path), metavar="DIR", help="A folder to make."
    )
    stage = click.argument("stage")
    run = click.argument("name", metavar="RUN|RECIPE")
    for option in (verbose_option, json_option, profile_option, out, stage, run):
        command = option(command)
    return command


@export.command()
@_arguments
def model(name: str, stage: str, out: Path, profile: str | None, as_json: bool) -> None:
    """Export the newest policy that STAGE trained as a Hugging Face folder."""
    from mimo.pipeline.export import export_model

    _report(export_model(name, stage, out, profile), size, as_json=as_json)


@export.command()
@_arguments
def data(name: str, stage: str, out: Path, profile: str | None, as_json: bool) -> None:
    """Export the rollouts of STAGE as JSON lines, a record each."""
    from mimo.pipeline.export import export_data

    _report(export_data(name, stage, out, profile), lambda lines: f"{lines:.0f} lines", as_json=as_json)


def _report(found: Exported, told: Callable[[float], str], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(found.as_json()))
        return
    for file, number in found.holds.items():
        click.echo(f"{found.folder / file}: {told(number)}")
    step = f", step {found.about['step']}" if "step" in found.about else ""
    unfinished = "" if found.about["finished"] else " (unfinished)"
    click.echo(f"of {found.about['stage']}{step} of run {found.about['run']}{unfinished}")
