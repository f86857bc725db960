"""`mimo compare`: two runs side by side."""

from __future__ import annotations

import json

import click

from commands.compare_tables import comparison_view
from commands.options import json_option, profile_option, verbose_option
from commands.render import output


@click.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@profile_option
@json_option
@verbose_option
def compare(a: str, b: str, profile: str | None, as_json: bool) -> None:
    """Show two runs side by side: parameters, pass rates, stages, time.

    A and B are run ids, `last`, or recipes; a recipe stands for its newest run (with --profile: under that
    profile).
    """
    from mimo.pipeline.compare import compare as compare_runs
    from mimo.pipeline.compare import find_run

    found = compare_runs(find_run(a, profile), find_run(b, profile))
    if as_json:
        click.echo(json.dumps(found.as_json()))
    else:
        output().print(comparison_view(found.as_json()))
