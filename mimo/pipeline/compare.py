"""Two runs side by side: parameters, metrics with intervals, stages, time, counts; reads files only."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from mimo.errors import RecipeError
from mimo.pipeline.compare_metrics import compared_metrics, confidence
from mimo.pipeline.compare_rates import METHOD
from mimo.pipeline.compared_run import ComparedRun, StageFacts, mlflow_place, read_run
from mimo.recipe.layers import find_recipe, shipped_recipes
from mimo.recipe.problems import did_you_mean
from mimo.run_dir.home import Home, find_home
from mimo.run_dir.runs import RunFolder, list_runs
from mimo.types import Json

LAST = "last"
"""What stands for the newest run here, whatever its recipe."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """What `mimo compare --json` prints. In every row the key `a` or `b` is left out where that run lacks it.

    `params` and `runtime` rows: {key, a, b}, only those that differ. `metrics`: {name, a, b, difference} with
    {value} or {value, low, high, effective, rollouts, tasks}; `difference` is B - A. `stages`: {stage,
    shared, a: {what, why, key, seconds}, b}. `time`: {name, a: {seconds, share}, b}. `counts`: {stage, what,
    a, b}.
    """

    a: ComparedRun
    b: ComparedRun
    params: list[dict[str, Json]]
    runtime: list[dict[str, Json]]
    metrics: list[dict[str, Json]]
    stages: list[dict[str, Json]]
    time: list[dict[str, Json]]
    counts: list[dict[str, Json]]
    mlflow: dict[str, Json]
    notes: list[str]

    def as_json(self) -> dict[str, Json]:
        """The comparison as data."""
        return {
            "schema": 1,
            "a": _about(self.a),
            "b": _about(self.b),
            "params": cast("list[Json]", self.params),
            "runtime": cast("list[Json]", self.runtime),
            "metrics": cast("list[Json]", self.metrics),
            "difference": METHOD,
            "stages": cast("list[Json]", self.stages),
            "time": cast("list[Json]", self.time),
            "counts": cast("list[Json]", self.counts),
            "mlflow": self.mlflow,
            "notes": list(self.notes),
        }


def find_run(name: str, profile: str | None = None) -> ComparedRun:
    """The run that `name` means: a run id, `last`, or a recipe (its newest run).

    `profile` narrows `last` and a recipe to runs under it.

    Raises:
        RecipeError: no such run or recipe, a recipe that has not run, or a run that cannot be read.
    """
    here = find_home(Path.cwd() / "recipe.yaml")
    if "/" not in name and here.run(name).is_dir():
        return read_run(here, RunFolder(here.run(name)))
    newest = list_runs(here, None, profile) if name == LAST else []
    if newest:
        return read_run(here, newest[0])
    file = find_recipe(Path(name), name)
    if not file.is_file():
        guess = did_you_mean(name, [*(run.run_id for run in list_runs(here)), *shipped_recipes()])
        raise RecipeError(
            f"{name!r} is no run in {here.root} and no recipe{guess}",
            hint="`mimo runs ls` lists the runs",
        )
    home = find_home(file)
    runs = list_runs(home, file, profile)
    if not runs:
        raise _never_ran(home, file, name, profile)
    return read_run(home, runs[0])


def compare(a: ComparedRun, b: ComparedRun) -> Comparison:
    """A against B.

    Raises:
        RecipeError: both are the same run.
    """
    if a.run.folder == b.run.folder:
        raise RecipeError(
            f"both are run {a.run.run_id}", hint="name two runs; `mimo runs ls` lists them, newest first"
        )
    differing = list(_differing("", dict(a.record.recipe), dict(b.record.recipe)))
    return Comparison(
        a=a,
        b=b,
        params=[row for row in differing if not str(row["key"]).startswith("runtime.")],
        runtime=[row for row in differing if str(row["key"]).startswith("runtime.")],
        metrics=compared_metrics(a, b),
        stages=_stages(a, b),
        time=_time(a, b),
        counts=_counts(a, b),
        mlflow=_mlflow(a, b),
        notes=list(_notes(a, b)),
    )


def _never_ran(home: Home, file: Path, name: str, profile: str | None) -> RecipeError:
    others = {run.profile for item in list_runs(home, file) if (run := item.record()) is not None}
    named = f" under profile {profile}" if profile else ""
    has = f"; it has runs under {', '.join(sorted(others))}" if others else ""
    option = f" --profile {profile}" if profile else ""
    return RecipeError(
        f"{name} has no run{named} in {home.root}{has}", hint=f"`mimo run {name}{option}` makes one"
    )


def _about(side: ComparedRun) -> dict[str, Json]:
    record, state = side.record, side.state
    git = record.git.get("mimo")
    facts = git if isinstance(git, dict) else {}
    gate = (side.report or {}).get("gate")
    return {
        "run": side.run.run_id,
        "recipe": record.recipe_file,
        "variant": record.variant,
        "profile": record.profile,
        "overrides": list(record.overrides),
        "status": side.status,
        "created": record.created,
        "last_start_s": state.ended - state.started if state and state.ended else None,
        "made_s": sum(item.seconds or 0.0 for item in side.stages.values() if item.what == "ran"),
        "reused_s": sum(item.seconds or 0.0 for item in side.stages.values() if item.what == "reused"),
        "commit": facts.get("commit"),
        "dirty": facts.get("dirty"),
        "confidence": confidence(side),
        "gate": gate.get("verdict") if isinstance(gate, dict) else None,
        "message": state.message if state else None,
        "folder": str(side.run.folder),
        "missing": list(side.missing),
    }


def _sides(a: Mapping[str, Json], b: Mapping[str, Json], key: str) -> dict[str, Json]:
    """The values of `key` as {a, b}, without the one that is not there."""
    return {name: side[key] for name, side in (("a", a), ("b", b)) if key in side}


def _differing(key: str, a: Json, b: Json) -> Iterator[dict[str, Json]]:
    """Rows {key, a, b} of the values that differ; entries of a list of mappings are `key.0`, `key.1`."""
    mine, other = _below(a), _below(b)
    if mine is not None and other is not None:
        for name in dict.fromkeys([*mine, *other]):
            below = f"{key}.{name}" if key else name
            if name in mine and name in other:
                yield from _differing(below, mine[name], other[name])
            else:
                yield {"key": below, **_sides(mine, other, name)}
    elif a != b:
        yield {"key": key, "a": a, "b": b}


def _below(value: Json) -> Mapping[str, Json] | None:
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return {str(index): item for index, item in enumerate(value)}
    return value if isinstance(value, dict) and value else None


def _stages(a: ComparedRun, b: ComparedRun) -> list[dict[str, Json]]:
    rows: list[dict[str, Json]] = []
    for stage in dict.fromkeys([*a.stages, *b.stages]):
        mine, other = a.stages.get(stage), b.stages.get(stage)
        shared = mine is not None and other is not None and mine.done and mine.folder == other.folder
        row: dict[str, Json] = {"stage": stage, "shared": shared}
        row |= {name: _stage(item) for name, item in (("a", mine), ("b", other)) if item is not None}
        rows.append(row)
    return rows


def _stage(item: StageFacts) -> dict[str, Json]:
    return {"what": item.what, "why": item.why, "key": item.key, "seconds": item.seconds}


def _time(a: ComparedRun, b: ComparedRun) -> list[dict[str, Json]]:
    mine, other = _parts(a), _parts(b)
    return [{"name": name, **_sides(mine, other, name)} for name in dict.fromkeys([*mine, *other])]


def _parts(side: ComparedRun) -> dict[str, Json]:
    rows = cast("list[dict[str, Json]]", (side.report or {}).get("time") or [])
    seconds = {str(row["name"]): float(str(row["seconds"])) for row in rows}
    total = sum(seconds.values())
    return {name: {"seconds": value, "share": value / total} for name, value in seconds.items() if total > 0}


def _counts(a: ComparedRun, b: ComparedRun) -> list[dict[str, Json]]:
    """What the stages left out; 0 where a stage is done and counted none of it."""
    rows: list[dict[str, Json]] = []
    for stage in dict.fromkeys([*a.stages, *b.stages]):
        made = {
            name: side.stages[stage].manifest for name, side in (("a", a), ("b", b)) if stage in side.stages
        }
        for what in dict.fromkeys(what for manifest in made.values() if manifest for what in manifest.counts):
            counted = {name: manifest.counts.get(what, 0) for name, manifest in made.items() if manifest}
            rows.append({"stage": stage, "what": what, **counted})
    return rows


def _mlflow(a: ComparedRun, b: ComparedRun) -> dict[str, Json]:
    """Both places; `page` is the path of MLflow's compare page when one store has both runs."""
    mine, other = mlflow_place(a), mlflow_place(b)
    page: Json = None
    if mine.get("run_id") and other.get("run_id") and mine["uri"] == other["uri"]:
        runs = json.dumps([mine["run_id"], other["run_id"]], separators=(",", ":"))
        experiments = sorted({str(mine["experiment_id"]), str(other["experiment_id"])})
        page = f"/#/compare-runs?runs={runs}&experiments={json.dumps(experiments, separators=(',', ':'))}"
    return {"a": mine, "b": other, "page": page}


def _notes(a: ComparedRun, b: ComparedRun) -> Iterator[str]:
    """What must be known before the numbers are believed."""
    if a.record.profile != b.record.profile:
        yield f"different profiles: A {a.record.profile or 'none'}, B {b.record.profile or 'none'}"
    if confidence(a) != confidence(b):
        yield (
            f"intervals of different confidence (A {confidence(a):g}, B {confidence(b):g}): "
            "differences have none"
        )
    for stage in [name for name in a.stages if name in b.stages]:
        mine, other = a.stages[stage].manifest, b.stages[stage].manifest
        for part in ("code", "tools") if mine and other else ():
            if mine and other and mine.identity.get(part) != other.identity.get(part):
                yield f"{stage}: made with different {part}"
    for name, side in (("A", a), ("B", b)):
        yield from (f"{name}: {line}" for line in side.missing)
