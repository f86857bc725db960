"""`mimo rank DIR`: the patches of one task, best first."""

from __future__ import annotations

import json
from pathlib import Path

import click

from commands.options import json_option, verbose_option
from commands.render import clean, output, table


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@json_option
@verbose_option
def rank(folder: Path, as_json: bool) -> None:
    """Order the patches of one task in DIR, best first, by program analysis.

    DIR holds `base` (or is a task folder) and `patches` (a unified diff each); it may hold `results.json`
    (which pass), `instruction.md` and `solution/files`. See docs/graders.md.
    """
    from mimo.stages.rank_folder import rank_folder

    found = rank_folder(folder)
    if as_json:
        click.echo(json.dumps(found.as_json()))
        return
    rows = [
        (
            "failed" if item.place is None else item.place,
            item.name,
            item.tier or "",
            "" if item.factor is None else f"{item.factor:.3f}",
            "" if item.weighted is None else f"{item.weighted:.2f}",
            item.lines,
            "\n".join(item.evidence),
        )
        for item in found.patches
    ]
    output().print(table(("place", "patch", "tier", "factor", "score", "lines", "evidence"), rows))
    for note in found.notes:
        click.echo(f"note: {clean(note)}")
