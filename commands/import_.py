"""`mimo import harbor|swebench`: tasks in other formats as task folders."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from commands.options import json_option, verbose_option
from commands.render import clean
from mimo.errors import RecipeError

if TYPE_CHECKING:
    from mimo.domains.coding.imports.importing import Outcome

out_option = click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where task folders are made.",
)


@click.group(name="import")
def import_() -> None:
    """Make task folders of tasks in other formats.

    The folders are sources of kind `folder`. What cannot be imported is left out with a reason, and the exit
    code is 1; the same command goes on where an earlier one ended.
    """


@import_.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@out_option
@json_option
@verbose_option
def harbor(folder: Path, out: Path, as_json: bool) -> None:
    """Import Harbor tasks: DIR itself, or every folder below it with a task.toml."""
    from mimo.domains.coding.imports.harbor import harbor_tasks
    from mimo.domains.coding.imports.importing import import_all
    from mimo.run_dir.home import find_home

    cache = find_home(Path.cwd() / "recipe.yaml").create().cache
    _report(import_all(harbor_tasks(folder, cache), out), out, as_json=as_json)


@import_.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@out_option
@click.option(
    "--repos",
    required=True,
    metavar="DIR|URL",
    help="A folder of clones (owner/name, owner__name or name), or the URL before owner/name.",
)
@json_option
@verbose_option
def swebench(file: Path, out: Path, repos: str, as_json: bool) -> None:
    """Import SWE-bench records (JSON or JSON lines), with their repositories from clones or a URL."""
    from mimo.domains.coding.imports.importing import import_all
    from mimo.domains.coding.imports.repository import Repositories
    from mimo.domains.coding.imports.swebench import swebench_tasks
    from mimo.run_dir.home import find_home

    if "://" not in repos and not Path(repos).is_dir():
        raise RecipeError(f"--repos {repos}: no such folder", hint="a folder of clones, or a URL")
    cache = find_home(Path.cwd() / "recipe.yaml").cache / "repositories"
    found = import_all(swebench_tasks(file, Repositories(place=repos, cache=cache)), out)
    _report(found, out, as_json=as_json)


def _report(outcomes: Iterable[Outcome], out: Path, *, as_json: bool) -> None:
    """Show each outcome as it comes, then the counts; exit code 1 when one was left out."""
    kept: list[Outcome] = []
    for item in outcomes:
        kept.append(item)
        if not as_json:
            for line in _lines(item):
                click.echo(clean(line))
    counts = Counter(item.what for item in kept)
    if as_json:
        rows = [item.as_json() for item in kept]
        click.echo(json.dumps({"schema": 1, "out": str(out), "tasks": rows, "counts": dict(counts)}))
    else:
        told = ", ".join(f"{number} {what}" for what, number in counts.items())
        click.echo(f"\n{len(kept)} tasks: {told}; in {out}")
    if counts["left out"]:
        raise click.exceptions.Exit(1)


def _lines(item: Outcome) -> Iterator[str]:
    yield f"{item.name}: {item.what}{f': {item.reason}' if item.reason else ''}"
    yield from (f"  note: {note}" for note in item.notes)
