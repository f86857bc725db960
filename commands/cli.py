"""The `mimo` program: lazy sub-commands; the one place that turns an exception into text and exit code."""

from __future__ import annotations

import importlib
import sys
import traceback

import click

from mimo.errors import Interrupted, MimoError
from sandbox.errors import SandboxError

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("commands.run:run", "Run a recipe end to end; print what is reused, what runs, and why."),
    "prepare-env": ("commands.stages:prepare_env", "Import, rebuild, scrub and verify every environment."),
    "probe-hacks": (
        "commands.stages:probe_hacks",
        "Probe every environment for leaks, scrub and probe again until clean.",
    ),
    "cold-start": ("commands.stages:cold_start", "Supervised training on replayed, verified demonstrations."),
    "synthesize-rubrics": (
        "commands.stages:synthesize_rubrics",
        "Try each task several times, route it to GRS or GAR, write rubrics from the contrast.",
    ),
    "rl-mixed": (
        "commands.stages:rl_mixed",
        "Reinforcement learning on groups of rollouts with graded rewards.",
    ),
    "mopd2": ("commands.stages:mopd2", "Distil teachers into the student, with teacher and SFT prefixes."),
    "audit": (
        "commands.audit:audit",
        "Evaluate every policy, audit every trajectory for hacks, judge the gate, write the report.",
    ),
    "plan": (
        "commands.plan:plan",
        "Say what a recipe would do, needs and costs: memory, tokens, disk, hours, USD; nothing runs.",
    ),
    "status": ("commands.status:status", "Show the stages of a recipe, its newest run, and who runs it."),
    "explain": (
        "commands.status:explain",
        "Say why a stage would run or not: what changed, root cause first.",
    ),
    "logs": ("commands.status:logs", "Print what a stage printed."),
    "stop": (
        "commands.status:stop",
        "Stop a running recipe at its next safe point and wait until it has ended.",
    ),
    "accept": ("commands.status:accept", "Keep a finished result although the code of its stage changed."),
    "gc": (
        "commands.gc:gc",
        "Remove what no kept run needs; sizes are shown first.",
    ),
    "runs": ("commands.runs:runs", "List runs, or show one."),
    "show": ("commands.show:show", "Show one run, or one rollout as a transcript."),
    "compare": (
        "commands.compare:compare",
        "Show two runs side by side: parameters, pass rates, stages, time.",
    ),
    "ui": ("commands.ui:ui", "Serve MLflow's pages over the runs here, on this machine only, until Ctrl-C."),
    "init": (
        "commands.init:init",
        "Make a project of one's own in DIR: a recipe, a first task, a README; nothing is replaced.",
    ),
    "import": ("commands.import_:import_", "Make task folders of tasks in other formats."),
    "export": ("commands.export:export", "Take a trained policy, or rollouts, out of a run."),
    "eval": (
        "commands.eval:eval_",
        "Evaluate a checkpoint on tasks: pass rates with intervals, hack audit, report.",
    ),
    "recipe": ("commands.recipe:recipe", "Check, show or describe a recipe; nothing runs."),
    "doctor": ("commands.doctor:doctor", "What this machine can run, with a remedy for what it cannot."),
    "track": ("commands.track:track", "Work with the MLflow copy of runs."),
    "scan": (
        "commands.scan:scan",
        "Look for leaked solutions in a checkout; exit code 4 when something is found.",
    ),
    "rank": (
        "commands.rank:rank",
        "Order the patches of one task in DIR, best first, by program analysis.",
    ),
    "advantages": (
        "commands.advantages:advantages",
        "Compute the advantages of the groups in FILE (JSON; - is standard input).",
    ),
    "bench": (
        "commands.bench:bench",
        "Write the grader bench, a page to play with advantages, and open it.",
    ),
}
"""Name -> (`module:attribute`, the line `mimo --help` shows, so that it loads nothing; a test compares)."""


class LazyGroup(click.Group):
    """A click group whose commands are imported when used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *sorted(super().list_commands(ctx))]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = entry[0].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        if COMMANDS:
            with formatter.section("Commands"):
                formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mimo-rl", prog_name="mimo")
def cli() -> None:
    """Run the MiMo-V2.6 post-training recipe on your model and your tasks."""


def main() -> None:
    """Console entry: run the command, print `error:` and `hint:` to stderr, exit with the documented code."""
    verbose = any(arg in ("-v", "--verbose") for arg in sys.argv[1:])
    try:
        code = cli.main(standalone_mode=False)
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except click.ClickException as problem:
        problem.show()
        code = problem.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        code = Interrupted.exit_code
    except MimoError as error:
        code = _report(error.message, error.hint, error.exit_code, verbose)
    except SandboxError as error:
        code = _report(str(error), error.hint, 69, verbose)
    except OSError as error:
        if error.filename is None:
            raise
        code = _report(f"{error.filename}: {error.strerror}", "-v shows where in the program", 1, verbose)
    sys.exit(code if isinstance(code, int) else 0)


def _report(message: str, hint: str | None, code: int, verbose: bool) -> int:
    if verbose:
        traceback.print_exc()
    click.echo(f"error: {message}", err=True)
    if hint:
        click.echo(f"hint: {hint}", err=True)
    return code
