"""`mimo scan PATH`: the leak probes on any checkout, without a recipe."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from commands.options import json_option, verbose_option
from mimo.errors import GateRefused, RecipeError


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--base", metavar="COMMIT", help="The commit that a policy starts from; without it, no git probes."
)
@click.option(
    "--needles",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="DIFF",
    help="A unified diff with the solution (and hidden tests): look for its added lines everywhere.",
)
@json_option
@verbose_option
def scan(path: Path, base: str | None, needles: Path | None, as_json: bool) -> None:
    """Look for leaked solutions in a checkout; exit code 4 when something is found."""
    from mimo.hacks.scan import scan_checkout

    if needles is not None and not needles.is_file():
        raise RecipeError(f"no file {needles}", hint="--needles takes a unified diff")
    findings = scan_checkout(path, base, needles.read_bytes() if needles else b"")
    leaks = [found for found in findings if found.severity != "info"]
    if as_json:
        rows = [asdict(found) for found in findings]
        click.echo(json.dumps({"schema": 1, "path": str(path), "base": base, "findings": rows}))
    else:
        for found in findings:
            shown = found.path.encode("unicode_escape").decode()
            click.echo(f"{found.route}  {found.severity:<8}  {shown}  sha256:{found.evidence_sha256[:16]}")
    if leaks:
        raise GateRefused(
            f"{len(leaks)} leaks in {path}",
            hint="docs/probe-hacks.md says what each route is and how to close it",
        )
    if not as_json:
        click.echo(f"no leak found in {path}")
