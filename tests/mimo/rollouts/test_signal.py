"""The learning signal from records: METHOD's worked numbers through the records' own path."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from mimo.algo.batch import TokenPenalty
from mimo.algo.length_penalty import LengthPenalty
from mimo.rollouts.signal import SignalRules, learning_signal
from tests.mimo.rollouts.made import made_group, made_rollout

NO_LENGTH = LengthPenalty(max=0.0, deadzone=0.0, saturation=1.0, exponent=1.5, percentile=30, gate=0.5)
RULES = SignalRules(
    aggregation="prompt-mean",
    spread_epsilon=1e-9,
    grs_floor=0.0,
    gar_cap=math.inf,
    gar_keep=True,
    gar_recentre=True,
    length_penalty=NO_LENGTH,
    token_penalty=None,
)


def test_plain_group_is_reward_minus_mean() -> None:
    signal = learning_signal([made_group([made_rollout(i, i < 3) for i in range(5)])], RULES)
    advantages = [item.rollout.advantage for item in signal.finished[0]]
    assert advantages == pytest.approx([0.4, 0.4, 0.4, -0.6, -0.6])  # METHOD 4.4: N=5, k=3
    assert signal.groups[0].accepted
    trained = signal.trained[0]
    assert trained.advantages.tolist() == pytest.approx([0, 0, 0, 0.4, 0.4, 0.4, 0.4])
    assert trained.loss_weight == pytest.approx(1 / 20)  # one prompt, 5 rollouts of 4 tokens


def test_gar_moves_mass_between_passes() -> None:
    quality = [1.0, 0.6, 0.3, None, None]
    rollouts = [made_rollout(i, i < 3, quality=quality[i]) for i in range(5)]
    signal = learning_signal([made_group(rollouts, "gar")], RULES)
    advantages = [item.rollout.advantage for item in signal.finished[0]]
    assert advantages == pytest.approx([0.631579, 0.378947, 0.189474, -0.6, -0.6], abs=1e-6)  # METHOD 4.5


def test_grs_multiplies_and_keeps_all_pass_groups() -> None:
    scores = [(0.9, 0.8), (0.5, 0.5), (0.9, 0.9), (0.7, 0.6)]
    signal = learning_signal(
        [made_group([made_rollout(i, True, scores=s) for i, s in enumerate(scores)], "grs")], RULES
    )
    rewards = [item.rollout.reward for item in signal.finished[0]]
    assert rewards == pytest.approx([0.72, 0.25, 0.81, 0.42])  # METHOD 3.2, row 2
    assert [i.rollout.advantage for i in signal.finished[0]] == pytest.approx([0.17, -0.30, 0.26, -0.13])


def test_a_confirmed_hack_is_reset_before_the_statistics() -> None:
    rollouts = [made_rollout(i, i < 3, leak=i == 2) for i in range(5)]
    signal = learning_signal([made_group(rollouts)], RULES)
    advantages = [item.rollout.advantage for item in signal.finished[0]]
    assert advantages == pytest.approx([0.6, 0.6, -0.4, -0.4, -0.4])  # METHOD 8
    assert signal.metrics["rollouts/hacks_reset"] == 1


def test_an_infrastructure_failure_leaves_the_group_and_no_number() -> None:
    rollouts = [made_rollout(0, True), made_rollout(1, False), made_rollout(2, None)]
    signal = learning_signal([made_group(rollouts)], RULES)
    assert [i.rollout.advantage for i in signal.finished[0]] == [0.5, -0.5, None]
    assert signal.metrics["rollouts/invalid"] == 1
    assert len(signal.trained) == 2


def test_all_pass_and_all_fail_groups_are_rejected_with_their_reason() -> None:
    groups = [
        made_group([made_rollout(i, True) for i in range(3)], group="a"),
        made_group([made_rollout(i, False) for i in range(3)], group="b"),
        made_group([made_rollout(i, i == 0) for i in range(2)], group="c"),
    ]
    signal = learning_signal(groups, RULES)
    assert [g.reason for g in signal.groups] == ["every rollout passes", "no rollout passes", None]
    assert {t.finished.rollout.group_id for t in signal.trained} == {"g"}
    assert signal.trained[0].loss_weight == pytest.approx(1 / 8)  # dropped groups count in no denominator


def test_flags_become_the_token_penalty_with_its_mass_conserved() -> None:
    rules = replace(
        RULES, token_penalty=TokenPenalty(kappa=2.0, alpha_max=2.0, beta_min=0.5, skip_if_no_absorber=False)
    )
    rollouts = [
        made_rollout(0, True, tokens=10, flag=(0, 2)),
        made_rollout(1, False, tokens=10, flag=(8, 10)),
    ]
    signal = learning_signal([made_group(rollouts)], rules)
    assert signal.metrics["token_penalty/alpha"] == pytest.approx(1.25)  # METHOD 6.3, row 1
    assert signal.metrics["token_penalty/beta"] == pytest.approx(0.75)
    told = {name.removeprefix("token_penalty/"): value for name, value in signal.metrics.items()}
    assert (told["pos_hit_tokens"], told["neg_hit_tokens"]) == (2, 2)
    assert (told["pos_scale_clamped"], told["neg_scale_clamped"]) == (0, 0)
    weight = 1 / 20
    masses = [told[name] / weight for name in ("pos_before", "pos_after", "neg_before", "neg_after")]
    assert masses == pytest.approx([5, 5, -5, -5])  # METHOD 6.3, row 1: + mass 5, - mass -5
    assert told["pos_mass_removed"] / weight == pytest.approx(1.0)
    assert told["neg_mass_added"] / weight == pytest.approx(1.0)
    good, bad = (t.advantages for t in signal.trained)
    assert good[3:].tolist() == pytest.approx([0, 0] + [0.625] * 8)
    assert bad[3:].tolist() == pytest.approx([-0.375] * 8 + [-1.0] * 2)
    assert np.isclose(good.sum(), 5.0)


def test_the_length_penalty_docks_passes_only() -> None:
    rules = replace(RULES, length_penalty=NO_LENGTH._replace(max=0.2))
    lengths = (100, 120, 150, 250, 400)
    rollouts = [made_rollout(i, i < 4, tokens=n) for i, n in enumerate(lengths)]
    signal = learning_signal([made_group(rollouts)], rules)
    advantages = [item.rollout.advantage for item in signal.finished[0]]
    expected = [0.245737, 0.245296, 0.217493, 0.045737, -0.754263]  # METHOD 5.2, reference profile
    assert advantages == pytest.approx(expected, abs=1e-6)
    told = {n.removeprefix("length_penalty/"): v for n, v in signal.metrics.items() if "length" in n}
    assert (told["groups_total"], told["groups_with_pass"], told["groups_skipped_low_pass_rate"]) == (1, 1, 0)
    assert (told["passed_rollouts"], told["penalized_rollouts"], told["passes_below_mean"]) == (4, 3, 0)
    assert told["penalize_rate"] == 0.75
    assert told["reference_mean"] == pytest.approx(np.quantile(lengths[:4], 0.3))
    assert told["excess_mean"] == pytest.approx(np.mean([120, 150, 250]) / told["reference_mean"] - 1)
    assert told["penalty_sum"] == pytest.approx(5 * told["penalty_mean"])
    assert (told["length/pass_p50"], told["length/pass_p90"]) == pytest.approx((135, 220))


def test_a_group_below_the_gate_is_counted_as_skipped_and_has_no_reference() -> None:
    rules = replace(RULES, length_penalty=NO_LENGTH._replace(max=0.2))
    rollouts = [made_rollout(i, i < 2, tokens=100 * (i + 1)) for i in range(5)]
    metrics = learning_signal([made_group(rollouts)], rules).metrics
    assert metrics["length_penalty/groups_skipped_low_pass_rate"] == 1
    assert metrics["length_penalty/penalized_rollouts"] == 0
    assert "length_penalty/reference_mean" not in metrics
    assert "length_penalty/excess_mean" not in metrics


def test_gar_keeps_the_passes_mass_and_moves_their_token_mass() -> None:
    """METHOD 4.3: f = (1, .6, .3), lengths 100, 200, 400, 300, 300: token mass 280 -> 214.737."""
    quality, lengths = [1.0, 0.6, 0.3, None, None], (100, 200, 400, 300, 300)
    rollouts = [made_rollout(i, i < 3, tokens=lengths[i], quality=quality[i]) for i in range(5)]
    metrics = learning_signal([made_group(rollouts, "gar")], RULES).metrics
    assert metrics["gar/positive_mass_before"] == pytest.approx(1.2)
    assert metrics["gar/positive_mass_after"] == pytest.approx(1.2)
    assert metrics["gar/token_mass_before"] == pytest.approx(280)
    assert metrics["gar/token_mass_after"] == pytest.approx(214.737, abs=1e-3)
