"""Rollouts found on disk by their ids, without reading whole records (and without numpy)."""

from __future__ import annotations

import difflib
import gzip
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import and_, eq
from pathlib import Path

from mimo.errors import RecipeError
from mimo.records import from_line
from mimo.types import Rollout

_HEAD = re.compile(rb'^\{"schema":\d+,"rollout_id":"([^"]*)","group_id":"([^"]*)"')
"""How `to_line` begins a rollout; ids are our own words, so nothing in them is escaped."""
_MEMBER = re.compile(r"^(.+)-r(\d+)$")
_NEAR = 200
STORES = ("demonstrations", "", "evaluation")
"""Folders of a stage's output that may hold rollouts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A rollout's place: the stage, the folder that holds its `rollouts/`, the step, and its line."""

    stage: str
    folder: Path
    step: int
    rollout_id: str
    group_id: str
    line: bytes

    @property
    def rollout(self) -> Rollout:
        """The record.

        Raises:
            RecipeError: another schema, or a damaged line.
        """
        try:
            return from_line(Rollout, self.line)
        except ValueError as error:
            raise RecipeError(f"{self.folder}, rollout {self.rollout_id}: {error}") from error

    @property
    def store(self) -> str:
        """`demonstrations` or `evaluation` for rollouts that the stage keeps apart, else empty."""
        return self.folder.name if self.folder.name in STORES else ""


def entries(stage: str, folder: Path) -> Iterator[Entry]:
    """Every rollout of a store, step by step, in the order they were written.

    Raises:
        ValueError: a line that is no rollout; the message names the file.
    """
    for path in sorted(folder.glob("rollouts/*.jsonl.gz")):
        with gzip.open(path, "rb") as lines:
            for number, line in enumerate(lines, 1):
                found = _HEAD.match(line)
                if found is None:
                    raise ValueError(f"{path}, line {number}: not a rollout of this version of mimo")
                yield Entry(
                    stage=stage,
                    folder=folder,
                    step=int(path.name.partition(".")[0]),
                    rollout_id=found[1].decode(),
                    group_id=found[2].decode(),
                    line=line,
                )


def stage_entries(stage: str, output: Path, stores: Iterable[str] = STORES) -> Iterator[Entry]:
    """Every rollout of a stage's output, store by store; RecipeError where one cannot be read."""
    for name in stores:
        try:
            yield from entries(stage, output / name)
        except (ValueError, EOFError, OSError) as error:
            raise RecipeError(f"{output / name}: rollouts cannot be read: {error}") from error


def plain_id(name: str) -> str:
    """The id as records spell it: `s000003-g00002-r5` is `s000003-g00002.5`."""
    member = _MEMBER.match(name)
    return f"{member[1]}.{member[2]}" if member else name


def matching(every: Iterable[Entry], name: str) -> list[Entry]:
    """What `name` means: the rollout or the group of this id, else all whose rollout id begins with it."""
    exact: list[Entry] = []
    group: list[Entry] = []
    begun: list[Entry] = []
    for entry in every:
        if entry.rollout_id == name:
            exact.append(entry)
        elif entry.group_id == name:
            group.append(entry)
        elif entry.rollout_id.startswith(name):
            begun.append(entry)
    return exact or group or begun


def near(name: str, known: Sequence[str], number: int = 3) -> list[str]:
    """At most `number` known ids that look like `name`, nearest first."""
    shared = sorted(known, key=lambda item: -sum(accumulate(map(eq, name, item), and_)))
    return difflib.get_close_matches(name, shared[:_NEAR], n=number, cutoff=0.4)
