"""`mimo doctor`: what this machine can run, a remedy a line."""

from __future__ import annotations

import json

import click

from commands.options import json_option, verbose_option
from mimo.errors import MachineLacks

MARKS = {"ok": "ok  ", "note": "note", "lack": "LACK"}


@click.command()
@json_option
@verbose_option
def doctor(as_json: bool) -> None:
    """What this machine can run, with a remedy for what it cannot.

    Ends with 0 if every profile's common needs are met, 1 if something is missing but a run is possible,
    69 if nothing can run.
    """
    from mimo.pipeline.doctor import examine

    diagnosis = examine()
    if as_json:
        click.echo(json.dumps(diagnosis.data()))
    else:
        for finding in diagnosis.findings:
            click.echo(f"{MARKS[finding.level]}  {finding.what}: {finding.found}")
            if finding.remedy:
                click.echo(f"      -> {finding.remedy}")
        click.echo(f"\nprofiles that can run here: {', '.join(diagnosis.profiles) or 'none'}")
    if not diagnosis.profiles:
        raise MachineLacks("nothing can run on this machine", hint="follow the remedies above")
    if any(finding.level == "lack" for finding in diagnosis.findings):
        raise click.exceptions.Exit(1)
