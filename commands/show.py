"""`mimo show`: one run, the groups of a stage, a group, or one rollout as a transcript."""

from __future__ import annotations

import json

import click

from commands.options import json_option, profile_option, verbose_option
from commands.render import output
from commands.show_views import shown_view


@click.command()
@click.argument("name", metavar="RUN|ROLLOUT")
@click.argument("what", metavar="[STAGE|GROUP|ROLLOUT]", required=False)
@profile_option
@json_option
@verbose_option
def show(name: str, what: str | None, profile: str | None, as_json: bool) -> None:
    """Show one run, or one rollout as a transcript.

    RUN is a run id, `last`, or a recipe, which stands for its newest run. STAGE lists its groups of rollouts;
    a group is a table, a rollout (s000003-g00002.5 or s000003-g00002-r5) a transcript. The beginning of an id
    will do where it says which; STAGE/ID names both. Without RUN: of the newest run here.
    """
    from mimo.pipeline.show import show as find

    found = find(name, what, profile)
    if as_json:
        click.echo(json.dumps(found.as_json()))
    else:
        output().print(shown_view(found.kind, found.data))
