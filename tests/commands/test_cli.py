"""The program itself: light help, summaries that agree, one place for exit codes."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from commands.cli import COMMANDS, cli
from mimo.pipeline.order import STAGES, Order

HEAVY = ("torch", "mlflow", "vllm", "deepspeed", "transformers", "numpy", "git", "httpx", "pydantic")


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom click.testing import CliRunner\nfrom commands.cli import cli\n"
        "assert CliRunner().invoke(cli, ['--help']).exit_code == 0\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


@pytest.mark.parametrize("name", list(COMMANDS))
def test_the_table_says_what_the_command_says(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    summary = COMMANDS[name][1]
    assert (command.help or "").split("\n")[0].strip() == summary
    assert command.name == name


@pytest.mark.parametrize("name", list(STAGES))
def test_every_stage_is_a_command_with_its_own_words(name: str) -> None:
    assert Order().load(name).summary == COMMANDS[name][1]
