"""`mimo audit`: the stage of a recipe, or the hack audit of a file of anyone's trajectories."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from commands.render import clean
from commands.stages import StageOptions, run_stage, stage_options
from mimo.errors import GateRefused, RecipeError

if TYPE_CHECKING:
    from mimo.hacks.audit_file import FileAudit

_FILES = (".jsonl", ".jsonl.gz")


@click.command()
@stage_options
def audit(
    recipe: Path, profile: str | None, overrides: tuple[str, ...], **options: Unpack[StageOptions]
) -> None:
    """Evaluate every policy, audit every trajectory for hacks, judge the gate, write the report.

    Only this stage of RECIPE; what it reads must be there.

    RECIPE may also be a file of trajectories, anyone's (.jsonl, .jsonl.gz; docs/audit.md): then these are
    audited for hacks and nothing else runs. Exit code 4 if a hack is confirmed.
    """
    if not recipe.name.endswith(_FILES):
        run_stage("audit", recipe, profile, overrides, **options)
        return
    if profile or overrides or options["force"] or options["fresh"]:
        raise RecipeError(
            f"{recipe} is a file of trajectories, no recipe",
            hint="leave --profile, --set, --force and --fresh out",
        )
    _audit_file(recipe, as_json=options["as_json"])


def _audit_file(file: Path, *, as_json: bool) -> None:
    from mimo.hacks.audit_file import audit_file

    found = audit_file(file)
    if as_json:
        click.echo(json.dumps(found.as_json()))
    else:
        for line in _lines(found):
            click.echo(clean(line))
    if found.confirmed:
        raise GateRefused(
            f"{found.confirmed} of {sum(found.verdicts.values())} trajectories hold a confirmed hack",
            hint="docs/probe-hacks.md says what each route is and how to close it",
        )


def _lines(found: FileAudit) -> Iterator[str]:
    for item in found.found:
        passed = {True: ", passed", False: ", failed", None: ""}[item.passed]
        yield f"{item.id} (line {item.line}): {item.verdict}{passed}"
        for step in item.taken:
            where = "" if step.turn is None else f" turn {step.turn}"
            yield f"  {step.route}{where}: {' '.join(step.quote.split())}"
            if step.proof and step.turn is not None:
                yield f"    evidence: {step.proof}"
    verdicts = ", ".join(f"{number} {what}" for what, number in sorted(found.verdicts.items()))
    yield f"{sum(found.verdicts.values())} trajectories: {verdicts}"
    for route, counts in sorted(found.routes.items()):
        yield f"  {route}: {', '.join(f'{number} {what}' for what, number in sorted(counts.items()))}"
    if found.without_reference:
        yield f"note: {found.without_reference} of them have no reference, so that no output can be evidence"
    yield from (f"note: {note}: {number} trajectories" for note, number in sorted(found.notes.items()))
