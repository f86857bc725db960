"""Which faulty turns become corrections: training tasks, trained policies, each turn once, kinds balanced.

Everything that is found and not written is counted with its reason.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mimo.rollouts.corrections import KINDS, Correction, CorrectionSource
from mimo.rollouts.faults import faults
from mimo.rollouts.loop import derived_seed
from mimo.stages.audit_sources import Source, policy_of
from mimo.types import HackFinding, Rollout, Task

MAX_CHARS = 8000
"""Longer turns or observations make no correction."""
_UNTRAINED = "base"


@dataclass(slots=True)
class Faults:
    """The faulty turns of one source: found by kind, left out by reason, and those that can be used."""

    found: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    usable: list[Correction] = field(default_factory=list)

    def see(self, source: Source, rollout: Rollout, task: Task, finding: HackFinding) -> None:
        """Take in a rollout's faulty turns."""
        for fault in faults(rollout, finding):
            self.found[fault.kind] += 1
            correction = Correction(
                task_id=task.task_id,
                harness=rollout.harness,
                source=CorrectionSource(
                    run=source.run, stage=source.stage, rollout_id=rollout.rollout_id, turn=fault.turn
                ),
                kind=fault.kind,
                faulty=fault.text,
                observation=fault.observation,
                note=KINDS[fault.kind],
            )
            reason = _unusable(correction, rollout, task)
            if reason is None:
                self.usable.append(correction)
            else:
                self.left_out[reason] += 1

    def bound(self, most: int) -> None:
        """Keep at most `most` of each kind, so that a long run's candidates stay few."""
        kept: list[Correction] = []
        for rows in _by_kind(self.usable).values():
            kept += _spread(rows)[:most]
        self.left_out["over audit.max_corrections"] += len(self.usable) - len(kept)
        self.usable = kept


def _unusable(correction: Correction, rollout: Rollout, task: Task) -> str | None:
    if task.split != "train":
        return "on a held-out task"
    if policy_of(rollout) == _UNTRAINED:
        return "by the untrained base policy"
    if max(len(correction.faulty), len(correction.observation)) > MAX_CHARS:
        return f"longer than {MAX_CHARS} characters"
    return None


def chosen(candidates: Sequence[Correction], most: int) -> tuple[list[Correction], Counter[str]]:
    """At most `most` corrections, kinds by turns and tasks by turns within a kind; why the others are not.

    The same faulty turn with the same answer on the same task is used once. Equal candidates give equal
    choices, whatever their order.
    """
    left_out: Counter[str] = Counter()
    once: dict[tuple[str, ...], Correction] = {}
    for item in sorted(candidates, key=_order):
        once.setdefault((item.task_id, item.harness, item.kind, item.faulty, item.observation), item)
    if twins := len(candidates) - len(once):
        left_out["the same turn again"] = twins
    rows = [_spread(row) for _, row in sorted(_by_kind(once.values()).items(), key=_rank)]
    kept = _by_turns(rows)[:most]
    if over := len(once) - len(kept):
        left_out["over audit.max_corrections"] = over
    return kept, left_out


def _rank(entry: tuple[str, list[Correction]]) -> int:
    return list(KINDS).index(entry[0])


def _by_kind(rows: Iterable[Correction]) -> dict[str, list[Correction]]:
    found: dict[str, list[Correction]] = defaultdict(list)
    for item in rows:
        found[item.kind].append(item)
    return found


def _spread(rows: Sequence[Correction]) -> list[Correction]:
    """Tasks by turns, each task's in a fixed shuffled order."""
    tasks: dict[str, list[Correction]] = defaultdict(list)
    for item in sorted(rows, key=_order):
        tasks[item.task_id].append(item)
    return _by_turns([tasks[name] for name in sorted(tasks)])


def _by_turns(rows: Sequence[Sequence[Correction]]) -> list[Correction]:
    longest = max(map(len, rows), default=0)
    return [row[place] for place in range(longest) for row in rows if place < len(row)]


def _order(item: Correction) -> tuple[int, str, int]:
    source = item.source
    return derived_seed("correction", source.rollout_id, source.turn), source.rollout_id, source.turn
