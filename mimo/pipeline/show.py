"""What `mimo show` finds: a run, a stage's groups, a group, or one rollout; reads files only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mimo.errors import RecipeError
from mimo.pipeline.compare import LAST, find_run
from mimo.pipeline.compared_run import ComparedRun, StageFacts, read_run
from mimo.pipeline.show_rollout import group_data, rollout_data
from mimo.pipeline.show_run import run_data, stage_data
from mimo.recipe.layers import find_recipe
from mimo.rollouts.find import Entry, matching, near, plain_id, stage_entries
from mimo.run_dir.home import find_home
from mimo.run_dir.runs import list_runs
from mimo.types import Json

_NAMED_IN_ERROR = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """One answer: `kind` is run, stage, group or rollout; `data` is what `--json` prints (without schema)."""

    kind: str
    data: dict[str, Json]

    def as_json(self) -> dict[str, Json]:
        """The answer as data."""
        return {"schema": 1, "kind": self.kind, **self.data}


def show(name: str, what: str | None = None, profile: str | None = None) -> Shown:
    """What a user named.

    Args:
        name: a run id, `last`, or a recipe (its newest run); without `what` also a rollout or group of the
            newest run here.
        what: a stage, group or rollout of that run; the beginning of an id will do where it says which, and
            `STAGE/ID` names the stage too.

    Raises:
        RecipeError: no such run, recipe, stage, group or rollout, or more than one that begins so.
    """
    side, what = _side(name, what, profile)
    if what is None:
        return Shown(kind="run", data=run_data(side))
    stage, _, ident = what.rpartition("/") if "/" in what else ("", "", what)
    if not stage and ident in side.stages:
        item = side.stages[ident]
        return Shown(kind="stage", data=stage_data(side, item, _entries(item)))
    if stage and stage not in side.stages:
        raise RecipeError(
            f"run {side.run.run_id} has no stage {stage!r}", hint=f"it has {', '.join(side.stages)}"
        )
    places = [side.stages[stage]] if stage else list(side.stages.values())
    return _found(side, places, plain_id(ident))


def _side(name: str, what: str | None, profile: str | None) -> tuple[ComparedRun, str | None]:
    """The run, and what is wanted of it."""
    home = find_home(Path.cwd() / "recipe.yaml")
    newest = list_runs(home)
    is_run = "/" not in name and home.run(name).is_dir()
    if (
        what is None
        and name != LAST
        and not is_run
        and newest
        and not find_recipe(Path(name), name).is_file()
    ):
        return read_run(home, newest[0]), name
    return find_run(name, profile), what


def _found(side: ComparedRun, places: list[StageFacts], ident: str) -> Shown:
    every = [entry for item in places for entry in _entries(item)]
    found = matching(every, ident)
    groups = dict.fromkeys((entry.stage, str(entry.folder), entry.group_id) for entry in found)
    if not found:
        raise _unknown(side, every, ident)
    if len(groups) > 1:
        named = [f"{stage}/{group}" for stage, _, group in groups]
        more = f" and {len(named) - _NAMED_IN_ERROR} more" if len(named) > _NAMED_IN_ERROR else ""
        raise RecipeError(
            f"{ident!r} is the beginning of {len(found)} rollouts in {len(groups)} groups: "
            f"{', '.join(named[:_NAMED_IN_ERROR])}{more}",
            hint="name more of the id; `mimo show RUN STAGE` lists the groups of a stage",
        )
    if len(found) == 1 and found[0].rollout_id.startswith(ident):
        return Shown(kind="rollout", data=rollout_data(side, found[0]))
    first = found[0]
    members = [entry for entry in every if (entry.folder, entry.group_id) == (first.folder, first.group_id)]
    return Shown(kind="group", data=group_data(side, members))


def _unknown(side: ComparedRun, every: list[Entry], ident: str) -> RecipeError:
    if not every:
        return RecipeError(
            f"run {side.run.run_id} has no rollouts yet",
            hint=f"`mimo show {side.run.run_id}` shows its stages",
        )
    if "." in ident:
        close = near(ident, [entry.rollout_id for entry in every])
    else:
        close = near(ident, list(dict.fromkeys(entry.group_id for entry in every)))
    stages = ", ".join(dict.fromkeys(entry.stage for entry in every))
    guess = f"; near it: {', '.join(close)}" if close else ""
    return RecipeError(
        f"no stage, group or rollout {ident!r} in run {side.run.run_id}{guess}",
        hint=f"`mimo show {side.run.run_id} STAGE` lists the groups of a stage; rollouts are in {stages}",
    )


def _entries(item: StageFacts) -> Iterator[Entry]:
    output = item.folder or item.partial
    if output is not None:
        yield from stage_entries(item.stage, output)
