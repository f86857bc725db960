"""The loop of an import: every task is imported, there already, or left out with a reason; it resumes."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mimo.errors import RecipeError
from mimo.types import Json

_WORK = ".importing"
"""Folder of tasks in the making; it has no task.toml itself, so that nobody takes it for a task."""
_FACTS = "[metadata.mimo]"


class CannotImport(Exception):
    """This task cannot become one of ours; the message is the reason. The import goes on with the next."""


@dataclass(slots=True)
class Draft:
    """A task folder in the making: files by path, `facts` for [metadata.mimo], notes for the user."""

    files: dict[str, bytes] = field(default_factory=dict)
    facts: dict[str, Json] = field(default_factory=dict)
    config: str = ""
    """The rest of task.toml, as text."""
    notes: list[str] = field(default_factory=list)

    def write(self, folder: Path) -> None:
        """Write everything below `folder`, task.toml last."""
        for path, data in self.files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
            if data.startswith(b"#!"):
                target.chmod(0o755)
        (folder / "environment" / "repo").mkdir(parents=True, exist_ok=True)
        rows = "".join(f"{key} = {json.dumps(value)}\n" for key, value in self.facts.items())
        config = self.config.rstrip("\n")
        (folder / "task.toml").write_text(f"{config}\n\n{_FACTS}\n{rows}".lstrip("\n"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """A task to import: its folder's name, a digest of all it is made of, and how it is made."""

    name: str
    sha256: str
    draft: Callable[[], Draft]


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What became of one task: `imported`, `there` (made of the same by an earlier import) or `left out`."""

    name: str
    what: str
    reason: str = ""
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Json]:
        """The outcome as data."""
        return {"name": self.name, "what": self.what, "reason": self.reason, "notes": list(self.notes)}


def import_all(wanted: Iterable[Wanted | Outcome], out: Path) -> Iterator[Outcome]:
    """Import one after another into `out/NAME`; an `Outcome` among them is handed on.

    A task is written beside and renamed, so that a killed import leaves only whole ones and the same command
    goes on after them.

    Raises:
        RecipeError: `out` is no folder that can be made.
    """
    work = out / _WORK
    try:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
    except OSError as error:
        raise RecipeError(f"{error.filename}: {error.strerror}", hint="--out names a folder") from error
    seen: set[str] = set()
    try:
        for item in wanted:
            if isinstance(item, Outcome):
                yield item
            elif item.name in seen:
                yield Outcome(name=item.name, what="left out", reason="the same name twice")
            else:
                seen.add(item.name)
                yield _one(item, out, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _one(item: Wanted, out: Path, work: Path) -> Outcome:
    final = out / item.name
    if final.exists():
        made_of = re.search(r'^sha256 = "([0-9a-f]{64})"$', _text(final / "task.toml"), re.M)
        if made_of is not None and made_of[1] == item.sha256:
            return Outcome(name=item.name, what="there")
        reason = f"{final} is there, made of something else; remove it to import this one"
        return Outcome(name=item.name, what="left out", reason=reason)
    try:
        draft = item.draft()
    except CannotImport as error:
        return Outcome(name=item.name, what="left out", reason=str(error))
    draft.facts["sha256"] = item.sha256
    draft.write(work / item.name)
    (work / item.name).rename(final)
    return Outcome(name=item.name, what="imported", notes=tuple(draft.notes))


def folder_name(name: str) -> str:
    """A name as a folder may be called."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:120] or "task"


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.is_file() else ""
