"""`mimo prepare-env` … `mimo mopd2`: one stage of a recipe, made from the stage's own facts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypedDict, TypeVar, Unpack

import click

from commands.options import fresh_option, json_option, recipe_options
from commands.run import progress_option, run_and_report
from mimo.pipeline.plan import Selection
from mimo.pipeline.project import Request, open_project

P = ParamSpec("P")
R = TypeVar("R")
_force_option = click.option(
    "--force",
    is_flag=True,
    help="Start over even if the result is there; an interrupted --force goes on.",
)


def stage_options(command: Callable[P, R]) -> Callable[P, R]:
    """What a command of one stage takes: RECIPE and its options, --json, --progress, --force, --fresh."""
    for option in (fresh_option, _force_option, progress_option, json_option, recipe_options):
        command = option(command)
    return command


def run_stage(
    name: str, recipe: Path, profile: str | None, overrides: tuple[str, ...], **options: Unpack[StageOptions]
) -> None:
    """Run only the stage `name` of a recipe, and say how it went."""
    selection = Selection(only=(name,), force=(name,) if options["force"] else (), fresh=options["fresh"])
    request = Request(recipe=recipe, profile=profile, overrides=overrides, selection=selection)
    run_and_report(open_project(request), progress=options["progress"], as_json=options["as_json"])


class StageOptions(TypedDict):
    """The options of `stage_options` besides the recipe's."""

    as_json: bool
    progress: str
    force: bool
    fresh: bool


def stage_command(name: str, summary: str) -> click.Command:
    """The command that runs only the stage `name`; what it reads must be there."""

    @click.command(name=name, help=f"{summary}\n\nOnly this stage of RECIPE; what it reads must be there.")
    @stage_options
    def command(
        recipe: Path, profile: str | None, overrides: tuple[str, ...], **options: Unpack[StageOptions]
    ) -> None:
        run_stage(name, recipe, profile, overrides, **options)

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
