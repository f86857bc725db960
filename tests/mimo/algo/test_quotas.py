from __future__ import annotations

import pytest

from mimo.algo.quotas import quotas, renormalised

BASE = {"coding": 0.68, "agent": 0.12, "visual": 0.13, "cyber": 0.04, "context": 0.03}


def test_every_step_is_full_and_no_total_strays_a_group_from_its_share() -> None:
    for groups in (1, 8, 64, 1568):
        totals = dict.fromkeys(BASE, 0)
        for step in range(30):
            now = quotas(BASE, groups, step)
            assert sum(now.values()) == groups
            assert min(now.values()) >= 0
            totals = {kind: totals[kind] + now[kind] for kind in BASE}
            for kind, share in BASE.items():
                assert abs(totals[kind] - share * groups * (step + 1)) < len(BASE), (groups, step, kind)


def test_a_small_share_gets_its_turn_in_small_steps() -> None:
    rows = [quotas(BASE, 8, step) for step in range(25)]
    assert sum(row["context"] for row in rows) == 6  # 0.03 * 8 * 25
    assert sum(row["coding"] for row in rows) == 136


def test_one_kind_gets_everything() -> None:
    assert quotas({"coding": 1.0}, 8, 3) == {"coding": 8}


def test_shares_of_what_is_there() -> None:
    assert renormalised(BASE, {"coding", "agent"}) == pytest.approx({"coding": 0.85, "agent": 0.15})
    assert renormalised({"coding": 0.0, "agent": 1.0}, {"coding"}) == {}
