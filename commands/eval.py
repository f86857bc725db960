"""`mimo eval CHECKPOINT TASKS|RECIPE`: pass rates of a checkpoint, as a run of its own."""

from __future__ import annotations

from pathlib import Path

import click

from commands.options import json_option, profile_option, set_option, verbose_option
from commands.run import progress_option, run_and_report, show_plan


@click.command(name="eval")
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.argument("what", metavar="TASKS|RECIPE", type=click.Path(path_type=Path))
@profile_option
@set_option
@json_option
@progress_option
@click.option("--dry-run", is_flag=True, help="Print the plan; nothing runs.")
@verbose_option
def eval_(
    checkpoint: Path,
    what: Path,
    *,
    profile: str | None,
    overrides: tuple[str, ...],
    as_json: bool,
    progress: str,
    dry_run: bool,
) -> None:
    """Evaluate a checkpoint on tasks: pass rates with intervals, hack audit, report.

    CHECKPOINT is a Hugging Face folder or a checkpoint of mimo. Tasks and settings are RECIPE's, or TASKS is
    a folder of task folders, tried with the settings of `pro`. The results call the checkpoint `base`.
    """
    from mimo.pipeline.evaluation import open_evaluation

    project = open_evaluation(checkpoint, what, profile=profile, overrides=overrides)
    if dry_run:
        show_plan(project, as_json=as_json)
    else:
        run_and_report(project, progress=progress, as_json=as_json)
