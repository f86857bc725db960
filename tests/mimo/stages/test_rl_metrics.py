"""A step's numbers over everything that was sampled, rejected groups included."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mimo.rollouts.loop import Finished
from mimo.rollouts.signal import SampledGroup, learning_signal
from mimo.stages.collect import Collected
from mimo.stages.rl_loop import signal_rules
from mimo.stages.rl_metrics import step_metrics, time_metrics
from mimo.types import Group, RolloutStatus
from tests.mimo.rollouts.made import made_group, made_rollout
from tests.mimo.stages.graded import smoke_recipe


def _collected(*groups: SampledGroup) -> tuple[Collected, dict[str, float]]:
    rules = signal_rules(smoke_recipe())
    first = learning_signal(groups, rules)
    accepted: list[SampledGroup] = []
    rejected: list[tuple[Group, tuple[Finished, ...]]] = []
    for group, record, finished in zip(groups, first.groups, first.finished, strict=True):
        if record.accepted:
            accepted.append(group)
        else:
            rejected.append((record, finished))
    made = Collected(accepted=tuple(accepted), rejected=tuple(rejected), rounds=2, wanted={"coding": 2})
    signal = learning_signal(accepted, rules) if accepted else None
    return made, step_metrics(made, signal, version=5)


def _cut(item: Finished) -> Finished:
    return replace(item, rollout=replace(item.rollout, status=RolloutStatus.TRUNCATED))


def test_dropped_groups_count_by_reason_and_turns_by_fault() -> None:
    mixed = [made_rollout(0, True), _cut(made_rollout(1, False, flag=(0, 2)))]
    made, numbers = _collected(
        made_group(mixed, group="a"),
        made_group([made_rollout(n, True) for n in range(2)], group="b"),
        made_group([made_rollout(n, False) for n in range(2)], group="c"),
    )
    assert (len(made.accepted), len(made.rejected)) == (1, 2)
    assert numbers["groups/accept_rate"] == pytest.approx(1 / 3)
    assert numbers["groups/zero_share"] == numbers["groups/one_share"] == pytest.approx(1 / 3)
    assert numbers["groups/dropped/no_rollout_passes"] == 1
    assert numbers["groups/dropped/rewards_have_no_spread"] == 0
    assert numbers["rollouts/total"] == 6
    assert numbers["rollouts/truncated_rate"] == pytest.approx(1 / 6)
    assert numbers["turns/per_rollout"] == 1
    assert numbers["turns/malformed_per_1k/malformed"] == pytest.approx(1000 / 6)
    assert numbers["turns/malformed_per_1k/unknown-tool"] == 0
    assert numbers["domains/coding/accept_rate"] == pytest.approx(1 / 3)
    assert numbers["domains/coding/advantage_mean"] == pytest.approx(0.0)
    assert numbers["domains/coding/advantage_std"] == pytest.approx(0.5)
    assert "token_penalty/pos_before" in numbers


def test_staleness_is_counted_in_updates_from_the_sampled_tokens() -> None:
    item = made_rollout(0, True)
    assert item.payload is not None
    sampled = int(item.payload.weight_version[item.payload.loss_mask][0])
    _, numbers = _collected(made_group([item, made_rollout(1, False)]))
    assert numbers["tokens/staleness_mean"] == 5 - sampled


def test_a_step_without_an_accepted_group_still_has_its_numbers() -> None:
    made, numbers = _collected(made_group([made_rollout(n, False) for n in range(2)]))
    assert numbers["groups/zero_share"] == 1
    assert numbers["groups/accept_rate"] == 0
    assert "reward/mean" not in numbers
    assert time_metrics(made, sampled_s=2.0, step_s=3.0)["time/step_s"] == 3.0
