"""`mimo ui`: MLflow's own pages over the runs here, until Ctrl-C."""

from __future__ import annotations

import json

import click

from commands.options import json_option, profile_option, verbose_option
from commands.render import clean


@click.command()
@click.argument("name", metavar="[RUN|RECIPE]", required=False)
@profile_option
@json_option
@verbose_option
def ui(name: str | None, profile: str | None, as_json: bool) -> None:
    """Serve MLflow's pages over the runs here, on this machine only, until Ctrl-C.

    With a run (`last`: the newest; or a recipe: its newest run) the address of its page is printed. A run
    that is tracked on a server needs none here: its address is printed, and the command ends.
    """
    from mimo.pipeline.ui import open_pages

    def starting() -> None:
        if not as_json:
            click.echo("starting MLflow's server ...", err=True)

    try:
        with open_pages(name, profile, starting=starting) as pages:
            if as_json:
                about = {"schema": 1, "url": pages.url, "page": pages.page, "store": pages.store}
                click.echo(json.dumps(about))
            else:
                click.echo(f"MLflow: {clean(pages.page)}  (store: {clean(pages.store)})")
            if pages.guarded is None:
                return
            if not as_json:
                click.echo("Ctrl-C ends it", err=True)
            pages.wait()
    except KeyboardInterrupt:
        click.echo("ended", err=True)
