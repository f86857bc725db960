"""`mimo prepare-env` … `mimo mopd2`: one stage of a recipe, made from the stage's own facts."""

from __future__ import annotations

from pathlib import Path

import click

from commands.options import json_option, recipe_options
from commands.run import progress_option, run_and_report
from mimo.pipeline.plan import Selection
from mimo.pipeline.project import Request, open_project


def stage_command(name: str, summary: str) -> click.Command:
    """The command that runs only the stage `name`; what it reads must be there."""

    @click.command(name=name, help=f"{summary}\n\nOnly this stage of RECIPE; what it reads must be there.")
    @recipe_options
    @json_option
    @progress_option
    @click.option("--force", is_flag=True, help="Start over even if the result is there.")
    @click.option("--fresh", is_flag=True, help="Leave out unfinished work of earlier starts.")
    def command(
        recipe: Path,
        profile: str | None,
        overrides: tuple[str, ...],
        *,
        as_json: bool,
        progress: str,
        force: bool,
        fresh: bool,
    ) -> None:
        selection = Selection(only=(name,), force=(name,) if force else (), fresh=fresh)
        request = Request(recipe=recipe, profile=profile, overrides=overrides, selection=selection)
        run_and_report(open_project(request), progress=progress, as_json=as_json)

    return command


prepare_env = stage_command("prepare-env", "Import, rebuild, scrub and verify every environment.")
probe_hacks = stage_command(
    "probe-hacks", "Probe every environment for leaks, scrub and probe again until clean."
)
cold_start = stage_command("cold-start", "Supervised training on replayed, verified demonstrations.")
synthesize_rubrics = stage_command(
    "synthesize-rubrics",
    "Try each task several times, route it to GRS or GAR, write rubrics from the contrast.",
)
rl_mixed = stage_command("rl-mixed", "Reinforcement learning on groups of rollouts with graded rewards.")
mopd2 = stage_command("mopd2", "Distil teachers into the student, with teacher and SFT prefixes.")
