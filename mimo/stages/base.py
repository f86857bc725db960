"""The contract between a stage and the engine of the pipeline (mimo.pipeline runs it in a subprocess)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, Protocol

from mimo.recipe.models import Recipe
from mimo.types import Json


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """The last committed point of an interrupted attempt: units done and the stage's own state."""

    step: int
    state: Mapping[str, Json]


@dataclass(frozen=True, kw_only=True, slots=True)
class SamplerHandle:
    """The run's sampler server as a stage sees it. `version` is the weight version it was left with."""

    url: str
    model_dir: Path
    version: int


class StageContext(Protocol):
    """What a running stage gets. Paths are absolute; `inputs` are read-only, published folders."""

    recipe: Recipe
    inputs: Mapping[str, Path]
    """Upstream stage name -> its published output folder."""
    out: Path
    """The folder that becomes this stage's output; survives an interruption as it was left."""
    scratch: Path
    """For files that need not survive; removed when the stage ends in any way (by the engine)."""
    cache: Path
    """MIMO_HOME/cache: content-addressed things that stages and runs share (root file systems, policies)."""
    resume: Progress | None
    """Last committed progress, or None for a fresh start."""
    label: str
    """Goes on every sandbox, so that the reaper finds what a killed stage left."""

    @property
    def counts(self) -> Mapping[str, Json]:
        """What this stage counted so far, earlier attempts' commits included."""
        ...

    def plan(self, units: int) -> None:
        """How many units this stage will do; ending with fewer committed is a failure."""
        ...

    def commit(self, step: int, state: Mapping[str, Json]) -> None:
        """`step` units are durably done; a kill after this returns loses none of them.

        Metrics logged for steps <= `step` become visible (MLflow) now; those after it are dropped on resume.
        """
        ...

    def rewind(self, step: int, state: Mapping[str, Json]) -> None:
        """Go on from an earlier step than the last committed one: what was saved after it is damaged.

        `resume` says the earlier step from now on; metrics and traces of the steps after it are dropped, and
        a kill from here on resumes there. Does nothing when `step` is not earlier.
        """
        ...

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Metrics of `step`, buffered until the commit; non-finite values are flagged, never sent."""
        ...

    def trace(self, step: int, data: Mapping[str, Json]) -> None:
        """A sampled rollout for MLflow's trace view (at most `tracking.traces_per_step` a step)."""
        ...

    def count(self, what: str, amount: int = 1, *, why: str = "") -> None:
        """Something that must not pass silently: a skip, a mask, a drop, a fallback, a cap that binds."""
        ...

    def progress(self, done: int, total: int, unit: str, note: str = "") -> None:
        """Feed the live view (bar or heartbeat); cheap, call it often."""
        ...

    def event(self, event: str, about: Mapping[str, Json]) -> None:
        """A line in events.jsonl."""
        ...

    def should_stop(self) -> bool:
        """True once the user asked to stop; commit, then raise StoppedSafely (`check_stop` does it)."""
        ...

    def check_stop(self) -> None:
        """Raise StoppedSafely if a stop was asked for; call right after a commit."""
        ...

    def sampler(self, model_dir: Path) -> SamplerHandle:
        """The run's sampler server, started (or started again) on `model_dir` if it is not up.

        A server that is up is handed over as it is, with whatever weights it has: update it yourself.
        """
        ...

    def sampler_holds(self, model_dir: Path, version: int) -> None:
        """Tell the run which weights its sampler has after an update; the next `sampler()` says so."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """A gate's no on a stage whose output is whole: what, got and expected; `hint` says what to do."""

    message: str
    hint: str


@dataclass(frozen=True, kw_only=True, slots=True)
class StageResult:
    """What a stage says when it ends: headline metrics and lines for the run's summary.

    With a `refusal` the output is published all the same, and every run that comes to it ends there with
    `GateRefused`.
    """

    headline: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    refusal: Refusal | None = None


class Stage(Protocol):
    """One stage. Classes hold only facts about themselves; everything else comes from the context."""

    name: ClassVar[str]
    """As on the command line: `rl-mixed`; the recipe key is the same with underscores."""
    summary: ClassVar[str]
    version: ClassVar[int]
    """Raise it when the meaning of the output changes although the code digest would not say so."""
    cost: ClassVar[Literal["light", "heavy"]]
    """`heavy`: a change of code alone never throws its output away without being asked."""
    reads: ClassVar[tuple[str, ...]]
    """Names of upstream stages whose outputs it reads."""
    built: ClassVar[bool]
    """False: exists in the order, is skipped with a visible line."""

    def params(self, recipe: Recipe) -> dict[str, Json]:
        """The semantic part of the recipe that this stage's result depends on (no runtime keys)."""
        ...

    def horizon(self, recipe: Recipe) -> dict[str, int]:
        """Recipe paths (`rl_mixed.steps`) that only say how far to go: raising one continues a result."""
        ...

    def run(self, ctx: StageContext) -> StageResult:
        """Do the work; commit often; resume from `ctx.resume`.

        Raises:
            StageFailed: the stage ran and did not do its job.
            GateRefused: a gate says no, and nothing is published (see `StageResult.refusal`).
            StoppedSafely: from `ctx.check_stop()`.
        """
        ...
