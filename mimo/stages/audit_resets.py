"""Were the rewards of confirmed hacks reset before any statistic was made of them? Computed again.

Every group of rl-mixed that holds a confirmed hack (by this audit or by the training's own) is computed again
from the verifier's verdicts, the recorded grades and the recipe's numbers, with those rollouts as leaks. A
reward or an advantage on disk that differs was not made from reset rewards.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mimo.errors import StageFailed
from mimo.records import from_line
from mimo.rollouts.groups import GroupPlan
from mimo.rollouts.loop import Finished
from mimo.rollouts.signal import SampledGroup, SignalRules, learning_signal
from mimo.rollouts.store import RolloutStore
from mimo.rollouts.token_log import Payload
from mimo.stages.audit_hacks import HackRow
from mimo.types import Group, HackFinding, HackVerdict, Rollout, Task

_TOLERANCE = 1e-6
_SHOWN = 5
_HACK = HackFinding(verdict=HackVerdict.CONFIRMED)
_CLEAN = HackFinding(verdict=HackVerdict.CLEAN)


@dataclass(frozen=True, kw_only=True, slots=True)
class Mismatch:
    """A recorded number that is not the one made from reset rewards; `name` is reward or advantage."""

    rollout_id: str
    hack: bool
    name: str
    got: float | None
    expected: float | None

    def __str__(self) -> str:
        kind = "hack" if self.hack else "group member"
        return f"{self.rollout_id} ({kind}): {self.name} {_shown(self.got)}, expected {_shown(self.expected)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Resets:
    """Confirmed hacks of a training stage, those whose reward was not 0 anyway, groups computed again.

    `only_now` were confirmed by this audit alone, `only_then` by the training alone.
    """

    confirmed: int = 0
    verified: int = 0
    groups: int = 0
    only_now: int = 0
    only_then: int = 0
    mismatches: tuple[Mismatch, ...] = ()

    def check(self, report: str) -> None:
        """StageFailed with the numbers unless every reset is verified."""
        if not self.mismatches:
            return
        wrong = len({item.rollout_id for item in self.mismatches if item.hack})
        more = len(self.mismatches) - _SHOWN
        shown = "; ".join(map(str, self.mismatches[:_SHOWN])) + (f"; {more} more" if more > 0 else "")
        raise StageFailed(
            f"{wrong} of {self.confirmed} confirmed hacks were not reset to 0 before the statistics of their "
            f"groups ({self.only_now} are confirmed by this audit only): {shown}",
            hint="the policy was rewarded for them: the same command with `--from rl-mixed` trains again "
            f"with the audit of this version; all findings are in {report}",
        )


def verify_resets(
    output: Path, hacks: Sequence[HackRow], rules: SignalRules, tasks: Mapping[str, Task]
) -> Resets:
    """What the records of a training stage say about the hacks in `hacks` (confirmed now or then).

    Args:
        output: the stage's folder: `rollouts/`, `groups/`.
        rules: the numbers the stage trained with.
    """
    names = {row.rollout_id for row in hacks}
    found = [entry for path in sorted(output.glob("groups/*.jsonl")) for entry in _groups(path, names, tasks)]
    missing = names - {item.rollout_id for _, members in found for item in members}
    mismatches = [_without_group(name) for name in sorted(missing)]
    for group, members in found:
        mismatches += _mismatches(group, members, names, rules, tasks)
    wrong = {bad.rollout_id for bad in mismatches}
    return Resets(
        confirmed=len(hacks),
        verified=len(names - wrong),
        groups=len(found),
        only_now=sum(row.recorded is not HackVerdict.CONFIRMED for row in hacks),
        only_then=sum(row.finding.verdict is not HackVerdict.CONFIRMED for row in hacks),
        mismatches=tuple(mismatches),
    )


def unreset(hacks: Sequence[HackRow]) -> tuple[Mismatch, ...]:
    """The hacks whose reward on disk is not 0, for a stage that keeps no groups."""
    return tuple(
        Mismatch(rollout_id=row.rollout_id, hack=True, name="reward", got=row.reward, expected=0.0)
        for row in hacks
        if row.reward
    )


def _groups(path: Path, names: set[str], tasks: Mapping[str, Task]) -> Iterator[tuple[Group, list[Rollout]]]:
    """The groups in `path` that hold one of `names`, each with its rollouts in its order."""
    groups = [from_line(Group, line) for line in path.read_bytes().splitlines()] if names else []
    groups = [group for group in groups if names & set(group.rollout_ids) and group.task_id in tasks]
    if not groups:
        return
    members = {item.rollout_id: item for item in RolloutStore(path.parents[1]).rollouts(int(path.stem))}
    for group in groups:
        if all(name in members for name in group.rollout_ids):
            yield group, [members[name] for name in group.rollout_ids]


def _mismatches(
    group: Group, members: Sequence[Rollout], hacks: set[str], rules: SignalRules, tasks: Mapping[str, Task]
) -> Iterator[Mismatch]:
    plan = GroupPlan(
        group_id=group.group_id,
        task=tasks[group.task_id],
        harness=members[0].harness,
        step=group.step,
        size=len(members),
    )
    finished = tuple(_as_sampled(item, hack=item.rollout_id in hacks) for item in members)
    signal = learning_signal([SampledGroup(plan=plan, finished=finished, method=group.method)], rules)
    for before, after in zip(members, signal.finished[0], strict=True):
        right = after.rollout
        pairs = [("reward", before.reward, right.reward)]
        if group.accepted or signal.groups[0].accepted:
            pairs.append(("advantage", before.advantage, right.advantage))
        for name, got, expected in pairs:
            if not _equal(got, expected):
                yield Mismatch(
                    rollout_id=before.rollout_id,
                    hack=before.rollout_id in hacks,
                    name=name,
                    got=got,
                    expected=expected,
                )


def _as_sampled(item: Rollout, *, hack: bool) -> Finished:
    """The rollout as it was before rewards: the verifier's word; as many tokens, of which none is flagged."""
    tokens = item.generated_tokens
    verdict = item.verdict
    rollout = replace(
        item,
        contexts=(),
        reward=None if verdict is None else float(verdict.passed and not verdict.tampered),
        advantage=None,
        hack=_HACK if hack else _CLEAN,
    )
    payload = Payload(
        token_ids=np.zeros(tokens, dtype=np.int32),
        loss_mask=np.ones(tokens, dtype=np.bool_),
        sampler_logprobs=np.zeros(tokens, dtype=np.float32),
        weight_version=np.zeros(tokens, dtype=np.int32),
    )
    return Finished(rollout=rollout, payload=payload, changes=None)


def _without_group(name: str) -> Mismatch:
    return Mismatch(rollout_id=name, hack=True, name="group record", got=None, expected=None)


def _equal(got: float | None, expected: float | None) -> bool:
    if got is None or expected is None:
        return got is expected
    return math.isclose(got, expected, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)


def _shown(value: float | None) -> str:
    return "missing" if value is None else f"{value:.6g}"
