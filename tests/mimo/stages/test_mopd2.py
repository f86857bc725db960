"""The samples and the signal of mopd2, on made payloads; no engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mimo.rollouts.loop import Finished
from mimo.rollouts.store import RolloutStore
from mimo.stages.mopd2_samples import Kind, Sample, sample_counts, usable
from mimo.stages.mopd2_signal import DistilRules, ScoredSample, distil_signal, has_tokens
from mimo.types import RolloutStatus
from tests.mimo.rollouts.made import made_rollout

ZETA: dict[Kind, float] = {"student": 0.5, "teacher_prefix": 0.25, "sft_prefix": 0.25}
RULES = DistilRules(kinds=ZETA, domains={"coding": 1.0}, clip=5.0, alpha=0.0)


def scored(
    kind: Kind,
    policy: Sequence[float],
    teacher: Sequence[float],
    *,
    number: int = 0,
    outcome: float = 0.0,
    position: int | None = None,
) -> ScoredSample:
    finished = made_rollout(number, True, group=kind, tokens=len(policy))
    return ScoredSample(
        sample=Sample(kind=kind, finished=finished, outcome=outcome, position=position),
        policy_logprobs=np.array(policy, dtype=np.float32),
        teacher_logprobs=np.array(teacher, dtype=np.float32),
    )


def test_teacher_equal_to_student_gives_no_advantage() -> None:
    signal = distil_signal([scored("student", [-1.0, -2.5], [-1.0, -2.5])], RULES)
    assert not signal.trained[0].advantages.any()
    assert signal.metrics["reverse_kl/student/rl-mixed"] == 0.0


def test_advantages_are_clipped_gaps_plus_the_outcome_of_student_rollouts() -> None:
    """METHOD 10.2: A_t = clip(g_t, -5, 5) + alpha A_ORM; the outcome itself is not clipped."""
    rules = replace(RULES, alpha=0.5)
    student = scored("student", [-9.0, -1.0, -1.0], [-1.0, -9.0, -2.0], outcome=2.0)
    single = scored("teacher_prefix", [-9.0, -1.0, -1.0], [-1.0, -9.0, -2.0])
    rows = distil_signal([student, single], rules).trained
    mask = rows[0].finished.payload.loss_mask  # type: ignore[union-attr]
    assert rows[0].advantages[mask].tolist() == [6.0, -4.0, 0.0]
    assert rows[1].advantages[mask].tolist() == [5.0, -5.0, -1.0]
    assert not rows[0].advantages[~mask].any()


def test_weights_are_zeta_over_samples_and_tokens() -> None:
    """METHOD 10.2: a token weighs zeta / (n |y|); a kind without samples raises no other."""
    rows = [
        scored("student", [-1.0] * 4, [-2.0] * 4),
        scored("student", [-1.0] * 2, [-2.0] * 2, number=1),
        scored("sft_prefix", [-1.0] * 5, [-2.0] * 5),
    ]
    weights = [item.loss_weight for item in distil_signal(rows, RULES).trained]
    assert weights == pytest.approx([0.5 / 8, 0.5 / 4, 0.25 / 5])


def test_domains_weigh_by_their_share() -> None:
    rules = replace(RULES, domains={"agent": 0.25, "coding": 0.75})
    weights = distil_signal([scored("student", [-1.0] * 2, [-2.0] * 2)], rules).trained[0].loss_weight
    assert weights == pytest.approx(0.75 * 0.5 / 2)


def test_metrics_tell_kind_teacher_position_and_clipping() -> None:
    rows = [
        scored("student", [-1.0, -1.0], [-2.0, -9.0]),
        scored("teacher_prefix", [-1.0], [-1.5], position=0),
        scored("teacher_prefix", [-1.0], [-1.0], position=2),
        scored("sft_prefix", [-1.0], [-0.5], position=0),
    ]
    metrics = distil_signal(rows, RULES).metrics
    assert metrics["reverse_kl/student/rl-mixed"] == pytest.approx(4.5)
    assert metrics["gap_clipped_share/student/rl-mixed"] == 0.5
    assert metrics["reverse_kl/teacher_prefix/rl-mixed"] == pytest.approx(0.25)
    assert metrics["reverse_kl/sft_prefix/cold-start"] == pytest.approx(-0.5)
    assert metrics["gap_abs_mean/sft_prefix/cold-start"] == pytest.approx(0.5)
    places = {key: value for key, value in metrics.items() if key.startswith("prefix_position/")}
    assert places == {
        "prefix_position/teacher_prefix/0": 1.0,
        "prefix_position/teacher_prefix/2": 1.0,
        "prefix_position/sft_prefix/0": 1.0,
    }


def test_the_teachers_logprobs_are_kept_with_the_tokens(tmp_path: Path) -> None:
    signal = distil_signal([scored("student", [-1.0, -2.0], [-1.5, -2.5])], RULES)
    plain = made_rollout(7, True)
    store = RolloutStore(tmp_path)
    store.write(1, [*signal.finished, plain])
    back = store.payloads(1)
    kept = back[signal.finished[0].rollout.rollout_id]
    assert kept.teacher_logprobs is not None
    assert kept.teacher_logprobs[kept.loss_mask].tolist() == [-1.5, -2.5]
    assert not kept.teacher_logprobs[~kept.loss_mask].any()
    assert back[plain.rollout.rollout_id].teacher_logprobs is None


def test_samples_are_shared_out_by_weight() -> None:
    assert sample_counts(64, ZETA) == {"student": 32, "teacher_prefix": 16, "sft_prefix": 16}
    none = {"student": 0.9, "teacher_prefix": 0.1, "sft_prefix": 0.0}
    assert sample_counts(3, none) == {"student": 3, "teacher_prefix": 1, "sft_prefix": 0}


def test_what_broke_off_is_not_scored_and_what_hacked_is_no_teacher() -> None:
    def sample(finished: Finished) -> Sample:
        return Sample(kind="student", finished=finished)

    broken = made_rollout(0, None)
    assert not has_tokens(sample(broken))
    assert not has_tokens(sample(replace(made_rollout(0, True), payload=None)))
    cut = made_rollout(0, True)
    assert has_tokens(sample(replace(cut, rollout=replace(cut.rollout, status=RolloutStatus.TRUNCATED))))
    turned = [replace(made_rollout(0, True, leak=leak).rollout, num_turns=1) for leak in (False, True)]
    assert [usable(rollout) for rollout in turned] == [True, False]
