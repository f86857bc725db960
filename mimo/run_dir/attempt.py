"""The folder of an unfinished stage: what it is made for, what is committed, its output so far."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from mimo.records import from_json, to_json
from mimo.run_dir import manifest as manifests
from mimo.run_dir.files import append_lines, json_line, read_json, read_lines, write_atomic, write_json
from mimo.run_dir.outputs import sweep_litter
from mimo.types import Json, record


@record
class Attempt:
    """`attempt.json`. `codes` are the code digests that worked on it; `horizon` is what it aims at.

    `asked`: the user said `--force` or `--from`; it is gone on with even where its result is there.
    """

    stage: str
    work_key: str
    key: str
    identity: dict[str, Json]
    horizon: dict[str, int]
    codes: tuple[str, ...]
    runs: tuple[str, ...]
    attempts: int
    started: float
    seconds: float = 0.0
    continued_from: str | None = None
    asked: bool = False


@record
class Committed:
    """`progress.json`: the last committed point, what was planned, what was counted up to it."""

    step: int
    state: dict[str, Json]
    planned: int
    counts: dict[str, Json]


@dataclass(frozen=True, slots=True)
class Work:
    """The paths inside an attempt's folder and the operations on them."""

    folder: Path

    @property
    def out(self) -> Path:
        """What becomes the published output."""
        return self.folder / "out"

    @property
    def scratch(self) -> Path:
        """Files that need not survive."""
        return self.folder / "scratch"

    @property
    def metrics(self) -> Path:
        """Committed metric rows."""
        return self.folder / "metrics.jsonl"

    @property
    def traces(self) -> Path:
        """Sampled rollouts of committed steps."""
        return self.folder / "traces.jsonl"

    @property
    def log(self) -> Path:
        """Everything the stage printed, all attempts."""
        return self.folder / "stage.log"

    def attempt(self) -> Attempt | None:
        """The attempt, or None when there is none (or only a torn one)."""
        data = read_json(self.folder / "attempt.json")
        try:
            return from_json(Attempt, data) if data else None
        except ValueError:
            return None

    def committed(self) -> Committed | None:
        """The last commit, or None."""
        data = read_json(self.folder / "progress.json")
        try:
            return from_json(Committed, data) if data else None
        except ValueError:
            return None

    def begin(self, attempt: Attempt) -> None:
        """Make the folder ready for `attempt` and write it down; what was committed stays."""
        self.out.mkdir(parents=True, exist_ok=True)
        self.clean()
        write_json(self.folder / "attempt.json", to_json(attempt))

    def clean(self) -> None:
        """Remove what a kill left: temporary files, a manifest written too early, rows past the commit."""
        sweep_litter(self.folder)
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir(parents=True, exist_ok=True)
        (self.out / manifests.NAME).unlink(missing_ok=True)
        shutil.rmtree(self.out / manifests.ENGINE_FOLDER, ignore_errors=True)
        step = self.step()
        _keep_until(self.metrics, step)
        _keep_until(self.traces, step)

    def step(self) -> int:
        """Units committed; -1 before the first commit (a commit of step 0 is possible)."""
        committed = self.committed()
        return committed.step if committed else -1

    def commit(
        self, committed: Committed, rows: list[dict[str, Json]], traces: list[dict[str, Json]]
    ) -> None:
        """Rows first, then the progress: a kill in between leaves rows that the next start drops."""
        append_lines(self.traces, traces)
        append_lines(self.metrics, rows)
        write_json(self.folder / "progress.json", to_json(committed))

    def rewind(self, committed: Committed) -> None:
        """Make an earlier point the last committed one: progress first, rows after it go."""
        write_json(self.folder / "progress.json", to_json(committed))
        _keep_until(self.metrics, committed.step)
        _keep_until(self.traces, committed.step)

    def finish(self) -> None:
        """Put metrics, traces and log into the output's engine folder, remove litter; before publishing."""
        sweep_litter(self.out)
        shutil.rmtree(self.scratch, ignore_errors=True)
        target = self.out / manifests.ENGINE_FOLDER
        target.mkdir(exist_ok=True)
        for path in (self.metrics, self.traces, self.log):
            if path.exists():
                shutil.copyfile(path, target / path.name)


def _keep_until(path: Path, step: int) -> None:
    """Drop rows of steps after `step`, and a torn last line."""
    if not path.exists():
        return
    rows = read_lines(path)
    kept = [row for row in rows if isinstance(row.get("step"), int) and int(str(row["step"])) <= step]
    temp_free = b"".join(json_line(row) for row in kept)
    if temp_free != path.read_bytes():
        write_atomic(path, temp_free)
