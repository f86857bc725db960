"""The plan of a recipe: every stage with its state and reason; made once, then frozen into the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mimo.errors import RecipeError
from mimo.pipeline.code import CodeReader
from mimo.pipeline.decide import WORKS, Decision, State, Wish, decide
from mimo.pipeline.identity import StageFacts, stage_facts
from mimo.pipeline.order import Order
from mimo.recipe.models import Recipe
from mimo.run_dir.home import Home
from mimo.types import Json


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """Which stages the user named: `--from`, `--until`, `--only`, `--force`, `--fresh`."""

    start: str | None = None
    until: str | None = None
    only: tuple[str, ...] = ()
    force: tuple[str, ...] = ()
    fresh: bool = False

    def names(self) -> tuple[str, ...]:
        """Every stage that is named."""
        return tuple(name for name in (self.start, self.until, *self.only, *self.force) if name)

    def check(self, known: Sequence[str]) -> None:
        """RecipeError for an unknown name, `--only` beside `--from` or `--until`, or nothing selected."""
        order = Order(dict.fromkeys(known, ""))
        for name in self.names():
            if name not in known:
                order.load(name)
        if self.only and (self.start or self.until):
            raise RecipeError("--only does not go with --from or --until", hint="name the stages with --only")
        if self.start and self.until and known.index(self.until) < known.index(self.start):
            raise RecipeError(
                f"--until {self.until} comes before --from {self.start}: no stage is left",
                hint=f"the order is {', '.join(known)}",
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """Facts and decisions by stage, in order; `selected` are the stages that may run."""

    facts: dict[str, StageFacts]
    decisions: dict[str, Decision]
    selected: tuple[str, ...]
    wishes: dict[str, Wish] = field(default_factory=dict)

    def has_work(self) -> bool:
        """True when a selected stage would run, or waits for one that does."""
        return any(self.decisions[name].state in WORKS for name in self.selected)

    def stuck(self) -> list[Decision]:
        """Selected stages that need the user: code-only changes and missing inputs."""
        return [
            self.decisions[name]
            for name in self.selected
            if self.decisions[name].state in (State.STALE_CODE, State.BLOCKED)
        ]

    def as_json(self) -> dict[str, Json]:
        """The plan as data for `plan.json` and `--json`."""
        return {
            "schema": 1,
            "stages": [_row(item, item.stage in self.selected) for item in self.decisions.values()],
        }


def make_plan(home: Home, recipe: Recipe, order: Order, selection: Selection, reader: CodeReader) -> Plan:
    """Every stage of `order` decided for `recipe`, as the code and the store are now."""
    selection.check(order.names())
    facts = {placed.name: stage_facts(placed, recipe, reader) for placed in order.placed(recipe)}
    selected = _selected(facts, selection)
    wishes = {name: _wish(name, selection) for name in facts}
    decisions: dict[str, Decision] = {}
    for name, fact in facts.items():
        decisions[name] = _decide(home, fact, decisions, wishes[name], selected)
    return Plan(facts=facts, decisions=decisions, selected=selected, wishes=wishes)


def active_inputs(facts: StageFacts, all_facts: Mapping[str, StageFacts]) -> tuple[str, ...]:
    """The stages whose outputs `facts` reads in this recipe: those left out or not built are not there."""
    return tuple(name for name in facts.reads if all_facts[name].built and all_facts[name].missing is None)


def dependants(start: str, facts: Mapping[str, StageFacts]) -> set[str]:
    """`start` and every stage that reads it, directly or not."""
    found = {start}
    for name, fact in facts.items():
        if found & set(fact.reads):
            found.add(name)
    return found


def _decide(
    home: Home, fact: StageFacts, before: Mapping[str, Decision], wish: Wish, selected: Sequence[str]
) -> Decision:
    absent = absence(fact)
    if absent is not None:
        return absent
    waiting, digests = [], {}
    for name in fact.reads:
        decision = before[name]
        if decision.state is State.CACHED and decision.output is not None:
            digests[name] = decision.output.manifest.digest
        elif decision.state not in (State.NOT_BUILT, State.SKIPPED):
            waiting.append(decision)
    if not waiting:
        return decide(home, fact, digests, wish)
    return _waits(fact, waiting, selected)


def _waits(fact: StageFacts, waiting: Sequence[Decision], selected: Sequence[str]) -> Decision:
    """A stage whose inputs are not all there: runs after them, or is blocked."""
    for decision in waiting:
        if decision.state in (State.BLOCKED, State.STALE_CODE) or decision.stage not in selected:
            return Decision(
                stage=fact.name,
                state=State.BLOCKED,
                reason=f"{decision.stage} is not done ({decision.reason})",
            )
    names = " and ".join(decision.stage for decision in waiting)
    return Decision(stage=fact.name, state=State.RUN, reason=f"after {names}; reused if that comes out equal")


def absence(fact: StageFacts) -> Decision | None:
    """The decision for a stage that has no part in this recipe, or is not built yet."""
    if fact.missing is not None:
        return Decision(stage=fact.name, state=State.SKIPPED, reason=fact.missing)
    if not fact.built:
        return Decision(stage=fact.name, state=State.NOT_BUILT, reason="not built in this version of mimo")
    return None


def _selected(facts: Mapping[str, StageFacts], selection: Selection) -> tuple[str, ...]:
    names = list(facts)
    if selection.only:
        return tuple(name for name in names if name in selection.only)
    chosen = dependants(selection.start, facts) if selection.start else set(names)
    if selection.until:
        chosen &= set(names[: names.index(selection.until) + 1])
    return tuple(name for name in names if name in chosen)


def _wish(name: str, selection: Selection) -> Wish:
    again = name == selection.start
    return Wish(
        force=name in selection.force,
        again=again,
        named=again or name in selection.only or name in selection.force,
        fresh=selection.fresh,
    )


def _row(item: Decision, selected: bool) -> Json:
    return {
        "stage": item.stage,
        "state": str(item.state),
        "reason": item.reason,
        "selected": selected,
        "key": item.key and item.key[:16],
        "committed": item.committed,
        "output": str(item.output.folder) if item.output else None,
    }
