"""`mimo runs`: the runs of a state folder, and one of them."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click

from commands.options import json_option, verbose_option
from commands.render import fields, output, runs_table
from mimo.errors import RecipeError
from mimo.pipeline.project import lock_path
from mimo.recipe.layers import find_recipe
from mimo.recipe.problems import did_you_mean
from mimo.records import to_json
from mimo.run_dir.home import Home, find_home
from mimo.run_dir.locks import holder
from mimo.run_dir.runs import RunFolder, list_runs
from mimo.types import Json


@click.group(invoke_without_command=True)
@click.pass_context
def runs(ctx: click.Context) -> None:
    """List runs, or show one."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(ls)


@runs.command()
@click.argument("recipe", type=click.Path(path_type=Path), required=False)
@click.option("--profile", metavar="NAME", help="Only runs of this profile.")
@json_option
@verbose_option
def ls(recipe: Path | None = None, profile: str | None = None, as_json: bool = False) -> None:
    """List runs, newest first; only those of RECIPE when it is given."""
    file = find_recipe(recipe, str(recipe)) if recipe else None
    home = find_home(file or Path.cwd() / "recipe.yaml")
    found = list_runs(home, file, profile)
    alive = {run.run_id: _alive(home, run) for run in found}
    if as_json:
        click.echo(json.dumps({"schema": 1, "runs": [_row(run, alive[run.run_id]) for run in found]}))
    else:
        output().print(runs_table(found, alive))


@runs.command()
@click.argument("run_id", metavar="RUN")
@json_option
@verbose_option
def show(run_id: str, as_json: bool) -> None:
    """Show one run: what it was started with and how it ended. The newest when RUN is `last`."""
    home = find_home(Path.cwd() / "recipe.yaml")
    run = _find(home, run_id)
    row = _row(run, _alive(home, run))
    if as_json:
        record = run.record()
        click.echo(json.dumps({**row, "record": to_json(record) if record else None, "plan": run.plan()}))
        return
    headline, created = row.pop("headline"), row.pop("created")
    row["began"] = (
        time.strftime("%Y-%m-%d %H:%M", time.localtime(created)) if isinstance(created, float) else None
    )
    output().print(fields(row))
    if isinstance(headline, dict) and headline:
        output().print(fields(headline))


def _find(home: Home, run_id: str) -> RunFolder:
    known = list_runs(home)
    for run in known:
        if run.run_id == run_id or run_id == "last":
            return run
    names = [run.run_id for run in known]
    raise RecipeError(
        f"no run {run_id!r} in {home.root}{did_you_mean(run_id, names)}", hint="`mimo runs ls` lists them"
    )


def _alive(home: Home, run: RunFolder) -> bool:
    record, state = run.record(), run.state()
    if record is None or state is None or state.status != "running":
        return False
    held = holder(lock_path(home, Path(record.recipe_file), record.profile))
    return held is not None and held["pid"] == state.pid


def _row(run: RunFolder, alive: bool) -> dict[str, Json]:
    record, state = run.record(), run.state()
    status = state.status if state else "new"
    return {
        "run": run.run_id,
        "status": "killed" if status == "running" and not alive else status,
        "recipe": record.recipe_file if record else None,
        "profile": record.profile if record else None,
        "created": record.created if record else None,
        "starts": state.starts if state else 0,
        "message": state.message if state else None,
        "folder": str(run.folder),
        "headline": dict(state.headline or {}) if state else {},
    }
