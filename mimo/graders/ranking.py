"""GAR's grader: five checks of each pass in the contrast of its whole group, tiers, quality factors.

Scores are 1 to 5 by facts; a negative judgement carries evidence; equal facts tie. Failed attempts are read
for the contrast only and get no factor. Source: METHOD 4.2 (checks, weights, tiers), `mimo.algo.quality`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mimo.graders.facts import Facts

Evidence = Mapping[str, tuple[str, ...]]
NEUTRAL = 4
"""What a negative judgement without evidence becomes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """One pass: its five scores in the order of `mimo.algo.quality.DIMENSIONS`, and the evidence of each.

    `serious`: a serious process problem or an unresolved regression. `bypass`: an unrequested rewrite or a
    bypass fitted to the tests.
    """

    rollout_id: str
    scores: tuple[float, float, float, float, float]
    evidence: Evidence = field(default_factory=dict)
    serious: bool = False
    bypass: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Quality:
    """What GAR takes of a pass: the factor in (0, 1], its tier, the evidence behind what is not perfect."""

    factor: float
    tier: str
    weighted: float
    evidence: tuple[str, ...]


def ranked(group: Sequence[Facts]) -> dict[str, Quality] | None:
    """rollout_id -> quality of every pass of the group; None where the group cannot be judged.

    A group with fewer than two passes is not judged: its factor would cancel (METHOD 4.3).
    """
    passes = [facts for facts in group if facts.passed]
    if len(passes) < 2:
        return None
    failures = [facts for facts in group if not facts.passed]
    smallest = min((facts.patch.lines for facts in passes if facts.patch.lines), default=0)
    shared = _of_failures(failures, passes)
    return qualities([_judged(facts, smallest, shared) for facts in passes])


def qualities(judged: Sequence[Judged]) -> dict[str, Quality] | None:
    """rollout_id -> quality from the five scores; None if any is unusable (the group falls back)."""
    import torch

    from mimo.algo.quality import DIMENSIONS, tier_factors, tiers, weighted_scores

    usable = all(1 <= value <= 5 for item in judged for value in item.scores)
    if not judged or not usable or len({item.rollout_id for item in judged}) != len(judged):
        return None
    rows = [_with_evidence(item, DIMENSIONS) for item in judged]
    scores = torch.tensor([item.scores for item in rows], dtype=torch.float64)
    weighted = weighted_scores(scores).round(decimals=9)
    tier = tiers(
        scores, torch.tensor([item.serious for item in rows]), torch.tensor([item.bypass for item in rows])
    )
    factors = tier_factors(tier, weighted)
    return {
        item.rollout_id: Quality(
            factor=float(factors[place]),
            tier=f"T{int(tier[place])}",
            weighted=float(weighted[place]),
            evidence=tuple(f"{name}: {line}" for name, lines in item.evidence.items() for line in lines),
        )
        for place, item in enumerate(rows)
    }


def _with_evidence(item: Judged, names: Sequence[str]) -> Judged:
    """A score below neutral, or a serious problem, without evidence is void: it becomes neutral."""
    first, second, third, fourth, fifth = (
        value if value >= NEUTRAL or item.evidence.get(name) else float(NEUTRAL)
        for name, value in zip(names, item.scores, strict=True)
    )
    process = bool(item.evidence.get("process"))
    return Judged(
        rollout_id=item.rollout_id,
        scores=(first, second, third, fourth, fifth),
        evidence=item.evidence,
        serious=item.serious and process,
        bypass=item.bypass and bool(item.evidence.get("approach") or item.evidence.get("minimality")),
    )


def _of_failures(failures: Sequence[Facts], passes: Sequence[Facts]) -> frozenset[tuple[str, str]]:
    """Constructs that most failed attempts have and at most half of the passes have."""

    def share(group: Sequence[Facts]) -> Counter[tuple[str, str]]:
        return Counter(kind for facts in group for kind in {(f.check, f.what) for f in facts.patch.findings})

    bad, good = share(failures), share(passes)
    return frozenset(k for k, n in bad.items() if 2 * n > len(failures) and 2 * good[k] <= len(passes))


def _judged(facts: Facts, smallest: int, shared: frozenset[tuple[str, str]]) -> Judged:
    patch = facts.patch
    evidence: dict[str, tuple[str, ...]] = {}

    def say(name: str, lines: Sequence[object]) -> int:
        if lines:
            evidence[name] = (*evidence.get(name, ()), *(str(line) for line in lines[:5]))
        return len(lines)

    bypass = say("approach", [*patch.of("fitted"), *(f for f in patch.of("evaluation") if f.line)])
    symptom = say("approach", patch.of("swallowed-exception", "relaxed-validation"))
    like_failures = say("approach", [f for f in patch.findings if (f.check, f.what) in shared])
    unchecked = say("approach", _unchecked(facts))
    approach = 1 if bypass else 2 if symptom else 4 if like_failures or unchecked else 5
    foreign = say("precision", [f"{name}: not part of the repair" for name in patch.foreign_functions])
    churn = say("precision", [f"{patch.cosmetic_lines} cosmetic lines"] if patch.cosmetic_lines else [])
    precision = max(2, 5 - min(2, foreign) - churn)
    minimality = 1 if patch.capped else _minimality(patch.lines, smallest)
    say("minimality", [f"{patch.lines} changed lines; the smallest pass has {smallest}"] * (minimality < 5))
    outside = say("side_effects", [f"{path}: changed" for path in (*patch.protected, *patch.unrelated)])
    outside += 2 * say("side_effects", ["more files changed than are analysed"] * patch.capped)
    wider = say("side_effects", patch.of("broad-export", "compatibility", "evaluation"))
    side_effects = max(1, 5 - 2 * min(2, outside) - min(2, wider))
    marks = say("craftsmanship", patch.of("style", "leftover", "redundant"))
    unreadable = say("craftsmanship", [f"{path}: not readable" for path in patch.unreadable])
    craft = 1 if unreadable else max(2, 5 - marks)
    return Judged(
        rollout_id=facts.rollout_id,
        scores=(approach, precision, minimality, side_effects, craft),
        evidence=evidence,
        serious=bool(say("process", _process_problems(facts))),
        bypass=bool(bypass) or (minimality == 1 and bool(foreign)),
    )


def _minimality(lines: int, smallest: int) -> int:
    """5 for the smallest pass, down to 1 for more than four times (and ten lines more than) its size."""
    if lines <= smallest:
        return 5
    ratio, more = lines / max(1, smallest), lines - smallest
    for value, factor, slack in ((4, 1.5, 2), (3, 2.5, 5), (2, 4.0, 10)):
        if ratio <= factor or more <= slack:
            return value
    return 1


def _unchecked(facts: Facts) -> list[str]:
    """The last edit, where the policy ran no test after it."""
    behavior = facts.behavior
    if behavior.tested_after_edit is not False:
        return []
    return [f"turn {behavior.places['edits'][-1]}: the last edit, with no test run after it"]


def _process_problems(facts: Facts) -> list[str]:
    behavior = facts.behavior
    rows = [f"turn {number}: edits a file it never saw" for number in behavior.places.get("blind_edits", ())]
    if behavior.last_test_passed is False:
        rows.append(
            f"turn {behavior.places['tests'][-1]}: the visible tests fail and nothing is edited after it"
        )
    if 2 * behavior.malformed > behavior.turns:
        rows.append(f"{behavior.malformed} of {behavior.turns} turns are malformed")
    return rows
