"""What happens to one stage: its state and the reason, from its identity and what lies in the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from mimo.pipeline.identity import StageFacts, differences, key_of, same_but, work_key_of
from mimo.run_dir import outputs
from mimo.run_dir.attempt import Attempt, Work
from mimo.run_dir.home import Home
from mimo.run_dir.outputs import Published
from mimo.types import Json

_SOFT_CODE = {"code", "tools"}


class State(StrEnum):
    """What the plan says of a stage."""

    CACHED = "cached"
    RUN = "run"
    RESUME = "resume"
    ADOPT = "adopt"
    DAMAGED = "damaged"
    FORCED = "forced"
    BLOCKED = "blocked"
    STALE_CODE = "stale-code"
    NOT_BUILT = "not-built"
    SKIPPED = "skipped"


WORKS = (State.RUN, State.RESUME, State.ADOPT, State.DAMAGED, State.FORCED)
"""The states in which a stage's process is started."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """The state of one stage and why. Keys are None while an input is not made yet.

    `output` is the published result that is used (cached) or gone on from (resume or adopt without unfinished
    work); `committed` the units that need not be done again. `asked`: made only because the user said so.
    """

    stage: str
    state: State
    reason: str
    key: str | None = None
    work_key: str | None = None
    output: Published | None = None
    committed: int | None = None
    asked: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What the user asked for one stage.

    `force` from scratch (a forced attempt that was interrupted goes on); `again` even if cached; `named`
    rerun if stale; `fresh` leave partial work out.
    """

    force: bool = False
    again: bool = False
    named: bool = False
    fresh: bool = False


def decide(home: Home, facts: StageFacts, inputs: Mapping[str, str], wish: Wish) -> Decision:
    """The decision for a stage whose inputs are all there (their digests by name)."""
    case = _Case(home, facts, facts.identity(inputs), wish)
    return case.decide()


class _Case:
    """One stage, its identity and what the store has; the questions in their order."""

    def __init__(self, home: Home, facts: StageFacts, identity: dict[str, Json], wish: Wish) -> None:
        self.home, self.facts, self.identity, self.wish = home, facts, identity, wish
        self.key, self.work_key = key_of(identity), work_key_of(identity)
        self.work = Work(home.work(facts.name, self.work_key))
        self.attempt = self.work.attempt()

    def decide(self) -> Decision:
        started = self._unfinished()
        if started is not None and self._asked_for():
            return replace(started, reason=f"{started.reason}; it was asked for by --force or --from")
        if self.wish.force:
            return replace(self._say(State.FORCED, "asked for with --force; starts over"), asked=True)
        if self.wish.again and started is not None:
            return started
        there = None if self.wish.again else self._published()
        if there is not None:
            return there
        return started or self._from_older() or self._anew()

    def _asked_for(self) -> bool:
        """Whether unfinished work makes this very result again because the user said so."""
        attempt = self.attempt
        return attempt is not None and attempt.asked and attempt.key == self.key and self.work.out.is_dir()

    def _published(self) -> Decision | None:
        name = self.facts.name
        for found, reason in (
            (outputs.find(self.home, name, self.key), "nothing changed"),
            (outputs.accepted(self.home, name, self.key), "an older result was accepted for this code"),
        ):
            if found is None:
                continue
            if found.problems:
                return self._say(State.DAMAGED, f"output damaged: {'; '.join(found.problems[:3])}; made anew")
            step = int(str(found.manifest.progress.get("step", 0)))
            return self._say(State.CACHED, f"{reason} (made by {found.manifest.run})", found, step)
        if outputs.unreadable(self.home, name, self.key):
            return self._say(State.DAMAGED, "output has no readable manifest; made anew")
        return None

    def _unfinished(self) -> Decision | None:
        """Goes on with an interrupted attempt, unless that may not or cannot be."""
        attempt = self.attempt
        if attempt is None or self.wish.fresh or self._past_horizon(attempt) is not None:
            return None
        step = max(self.work.step(), 0)
        if attempt.codes and attempt.codes[-1] == self.facts.code_digest:
            return self._say(State.RESUME, f"interrupted after step {step}", committed=step)
        if self.facts.cost == "heavy":
            return self._say(
                State.ADOPT,
                f"interrupted after step {step}; code changed since, goes on with it",
                committed=step,
            )
        return None

    def _past_horizon(self, attempt: Attempt) -> str | None:
        """Why unfinished work cannot be used: it has gone past what is wanted now."""
        step = self.work.step()
        for name, wanted in self.facts.horizon.items():
            if attempt.horizon.get(name, wanted) > wanted and step > wanted:
                return f"unfinished work is at step {step}, beyond {name} = {wanted}, and cannot go back"
        return None

    def _from_older(self) -> Decision | None:
        """A published result that differs in code, tools or horizon only."""
        if self.wish.again or self.wish.fresh:
            return None
        for older in outputs.every(self.home, self.facts.name):
            if older.manifest.work_key != self.work_key:
                continue
            found = self._use_older(older, same_but(older.manifest.identity, self.identity))
            if found is not None:
                return found
        return None

    def _use_older(self, older: Published, parts: set[str]) -> Decision | None:
        heavy, code_changed = self.facts.cost == "heavy", bool(parts & _SOFT_CODE)
        step = int(str(older.manifest.progress.get("step", 0)))
        if code_changed and not heavy:
            return None
        if "horizon" in parts:
            if not _raised(older.manifest.identity.get("horizon"), self.facts.horizon):
                return None
            state = State.ADOPT if code_changed else State.RESUME
            note = "; code changed since, goes on with it" if code_changed else ""
            return self._say(state, f"{self._horizon_text()}: goes on from step {step}{note}", older, step)
        if self.wish.named:
            return None
        changed = differences(older.manifest.identity, self.identity)
        return self._say(State.STALE_CODE, f"only code changed: {_brief(changed)}", older, step)

    def _anew(self) -> Decision:
        if self.wish.again:
            return replace(self._say(State.RUN, "asked for by name"), asked=True)
        if self.wish.fresh and self.attempt is not None:
            return self._say(State.RUN, "unfinished work is left out (--fresh)")
        reason = self.attempt and (self._past_horizon(self.attempt) or "code changed; starts over")
        nearest = nearest_manifest(self.home, self.facts.name, self.identity)
        if not reason and nearest is not None:
            reason = _brief(differences(nearest.manifest.identity, self.identity))
        return self._say(State.RUN, reason or "never made")

    def _horizon_text(self) -> str:
        return ", ".join(f"{name} raised to {value}" for name, value in self.facts.horizon.items())

    def _say(
        self, state: State, reason: str, output: Published | None = None, committed: int | None = None
    ) -> Decision:
        return Decision(
            stage=self.facts.name,
            state=state,
            reason=reason,
            key=self.key,
            work_key=self.work_key,
            output=output,
            committed=committed,
        )


def nearest_manifest(home: Home, stage: str, identity: Mapping[str, Json]) -> Published | None:
    """The earlier output whose identity differs in the fewest lines; the newest of equals."""
    ranked = [
        (len(differences(item.manifest.identity, identity)), -item.manifest.created, item)
        for item in outputs.every(home, stage)
    ]
    return min(ranked, key=lambda row: row[:2])[2] if ranked else None


def _raised(old: Json, new: Mapping[str, int]) -> bool:
    """True when no horizon key is lower than before and one is higher."""
    before = old if isinstance(old, dict) else {}
    pairs = [(int(str(before.get(name, value))), value) for name, value in new.items()]
    return all(was <= now for was, now in pairs) and any(was < now for was, now in pairs)


def _brief(lines: list[str]) -> str:
    shown = "; ".join(lines[:3])
    return shown + (f"; and {len(lines) - 3} more" if len(lines) > 3 else "")
