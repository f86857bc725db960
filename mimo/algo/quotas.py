"""Whole numbers of groups a kind gets in a step, so that running totals keep to the shares.

After s steps of G groups a kind with share b is due b G s groups. A step hands out its G groups one by one to
the kind that is due the most (the first of equals), so every total stays within one group per kind of its
share and a share too small for one group a step still gets its turn. Source: exact batch shares, METHOD 9.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping


def renormalised(shares: Mapping[str, float], present: Collection[str]) -> dict[str, float]:
    """The shares of the kinds that are present and have one, in the order of `shares`, summing to 1.

    Empty when no present kind has a share.
    """
    kept = {kind: share for kind, share in shares.items() if kind in present and share > 0}
    total = sum(kept.values())
    return {kind: share / total for kind, share in kept.items()}


def quotas(shares: Mapping[str, float], groups: int, step: int) -> dict[str, int]:
    """kind -> groups of step `step` (0-based); they sum to `groups`.

    Args:
        shares: sum to 1; at least one kind.
        groups: accepted groups of every step.
    """
    due = dict.fromkeys(shares, 0.0)
    given: dict[str, int] = {}
    for _ in range(step + 1):
        given = dict.fromkeys(shares, 0)
        for kind, share in shares.items():
            due[kind] += share * groups
        for _ in range(groups):
            first = max(due, key=due.__getitem__)
            due[first] -= 1
            given[first] += 1
    return given
