"""`mimo advantages`: rewards, qualities and hacks of groups in; advantages out."""

from __future__ import annotations

import json
import sys

import click

from commands.options import json_option, verbose_option
from mimo.errors import RecipeError
from mimo.types import Json


@click.command()
@click.argument("file", type=click.Path(allow_dash=True))
@json_option
@verbose_option
def advantages(file: str, as_json: bool) -> None:
    """Compute the advantages of the groups in FILE (JSON; - is standard input)."""
    from mimo.rollouts.advantage_file import read_input
    from mimo.rollouts.advantage_report import advantage_report

    report = advantage_report(read_input(_content(file)))
    if as_json or not sys.stdout.isatty():
        click.echo(json.dumps(report, allow_nan=False))
        return
    _print_tables(report)


def _content(file: str) -> bytes:
    try:
        with click.open_file(file, "rb") as stream:
            return bytes(stream.read())
    except OSError as error:
        raise RecipeError(f"{file}: {error.strerror}") from error


def _print_tables(report: dict[str, Json]) -> None:
    from rich.console import Console

    from commands.advantage_tables import advantage_tables

    console = Console()
    for table in advantage_tables(report):
        console.print(table)
