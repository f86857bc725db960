"""`mimo bench`: the grader bench as one HTML file, written and opened."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path

import click

from commands.options import verbose_option
from mimo.errors import RecipeError


@click.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("grader-bench.html"),
    show_default=True,
    help="The file to write.",
)
@click.option("--no-open", is_flag=True, help="Do not open it in a browser.")
@verbose_option
def bench(output: Path, no_open: bool) -> None:
    """Write the grader bench, a page to play with advantages, and open it."""
    from mimo.graders.bench import EXAMPLE, bench_page

    try:
        output.write_text(bench_page(EXAMPLE), encoding="utf-8")
    except OSError as error:
        raise RecipeError(f"{output}: {error.strerror}", hint="name another file with -o") from error
    click.echo(output.resolve())
    if not no_open and sys.stdout.isatty():
        webbrowser.open(output.resolve().as_uri())
