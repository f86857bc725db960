"""Corrections: faulty turns that an audit found, for the next run's cold start (`cold_start.corrections`).

One JSON object a line: `{"schema": 1, "task_id", "harness", "source": {"run", "stage", "rollout_id", "turn"},
"kind", "faulty", "observation", "note"}`. A file holds what went wrong, never what would have been right: the
later run's expert writes the correction, on its own task set and with its own verifier. Only training tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from mimo.errors import RecipeError
from mimo.records import from_line, to_line
from mimo.run_dir.files import write_atomic
from mimo.types import record

KINDS: Mapping[str, str] = {
    "hack": "The turn takes the answer from a place it should not be looked for in.",
    "malformed-call": "The turn holds no action that can be carried out.",
    "refused-call": "The action names a file or lines that are not there.",
    "repeated-call": "The same action again, although nothing has changed since.",
    "edit-fails-tests": "The edit leaves the visible tests failing.",
    "submit-unchanged": "Submitted without having changed anything.",
    "submit-untested": "Submitted without running the tests after the last edit.",
    "submit-failing": "Submitted although the tests had just failed.",
}
"""Kinds that this version writes, the gravest first, each with its note; a reader accepts others."""
_SHOWN = 5


@record
class CorrectionSource:
    """Where a faulty turn was sampled; `turn` counts the rollout's assistant turns from 0.

    `run` is None in an audit that no run's name is known to.
    """

    run: str | None
    stage: str
    rollout_id: str
    turn: int


@record
class Correction:
    """One faulty turn.

    `faulty` is the assistant's text exactly as sampled (without the end-of-turn token), `observation` what
    the tool answered ("" where the turn ended the rollout), `note` one sentence saying why it is faulty.
    """

    task_id: str
    harness: str
    source: CorrectionSource
    kind: str
    faulty: str
    observation: str
    note: str


def write_corrections(path: Path, corrections: Iterable[Correction]) -> None:
    """Replace `path` by the corrections, one a line."""
    write_atomic(path, b"".join(map(to_line, corrections)))


def read_corrections(path: Path) -> list[Correction]:
    """The corrections in `path`, in its order; a blank line is passed over.

    Raises:
        RecipeError: no such file, or lines that are no correction (the first few, each with its number).
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise RecipeError(
            f"corrections: cannot read {path}: {error.strerror}",
            hint="an audit writes corrections.jsonl into its output; null uses none",
        ) from error
    found: list[Correction] = []
    problems: list[str] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append(from_line(Correction, line))
        except ValueError as error:
            problems.append(f"{path}:{number}: {error}")
    if problems:
        more = f"\n… and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise RecipeError(
            "\n".join(problems[:_SHOWN]) + more,
            hint="the file must be the corrections.jsonl of an audit, as it was written",
        )
    return found
