"""Where the state of recipes lives: `MIMO_HOME` and the layout below it.

store/<stage>/<key16>/         published, immutable: manifest.json, the stage's files, _run/ (metrics, log)
store/<stage>/<work16>.work/   attempt.json progress.json metrics.jsonl stage.log out/ (partial, resumable)
store/<stage>/<key16>.accepted.json   `mimo accept`: which older output stands for this key
runs/<run-id>/                 run.json state.json plan.json events.jsonl
locks/  cache/
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mimo.errors import MachineLacks


@dataclass(frozen=True, slots=True)
class Home:
    """The absolute root folder and the paths below it. `create()` makes the folders."""

    root: Path

    @property
    def store(self) -> Path:
        """Outputs of stages."""
        return self.root / "store"

    @property
    def runs(self) -> Path:
        """One folder a run."""
        return self.root / "runs"

    @property
    def locks(self) -> Path:
        """Kernel lock files."""
        return self.root / "locks"

    @property
    def cache(self) -> Path:
        """Things any run may reuse and anyone may delete: policies, downloads, root file systems."""
        return self.root / "cache"

    def outputs(self, stage: str) -> Path:
        """The folder with all outputs of a stage."""
        return self.store / stage

    def output(self, stage: str, key: str) -> Path:
        """The published folder of a key (64 hex digits)."""
        return self.store / stage / key[:16]

    def work(self, stage: str, work_key: str) -> Path:
        """The folder of an attempt."""
        return self.store / stage / f"{work_key[:16]}.work"

    def run(self, run_id: str) -> Path:
        """The folder of a run."""
        return self.runs / run_id

    def stage_lock(self, stage: str, work_key: str) -> Path:
        """The lock file of an attempt."""
        return self.locks / f"{stage}-{work_key[:16]}.lock"

    def create(self) -> Home:
        """Make the folders (and a .gitignore, so that no state is committed by accident).

        Raises:
            MachineLacks: the folder cannot be made or written.
        """
        try:
            for folder in (self.store, self.runs, self.locks, self.cache):
                folder.mkdir(parents=True, exist_ok=True)
            ignore = self.root / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n")
        except OSError as error:
            raise MachineLacks(
                f"cannot write the state folder {self.root}: {error.strerror}",
                hint="set MIMO_HOME to a folder on a local disk that you can write",
            ) from error
        return self


def find_home(recipe_file: Path, environ: Mapping[str, str] = os.environ) -> Home:
    """The home of a recipe: `MIMO_HOME`; else `.mimo` in the git work tree that holds it, else in its folder.

    A recipe that came with the installed package has its state in the current folder.
    """
    given = environ.get("MIMO_HOME")
    if given:
        return Home(Path(given).expanduser().resolve())
    folder = recipe_file.resolve().parent
    if {"site-packages", "dist-packages"} & set(folder.parts):
        folder = Path.cwd()
    for parent in (folder, *folder.parents):
        if (parent / ".git").exists():
            return Home(parent / ".mimo")
    return Home(folder / ".mimo")
