"""What grading did in a step, by METHOD 14's names; a rate without a denominator is left out, never 0."""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import correlation, fmean, pstdev

from mimo.graders.judge import Judge
from mimo.graders.ranking import Quality
from mimo.graders.rubric import Scores
from mimo.rollouts.signal import Signal
from mimo.types import HackFinding, HackVerdict, Rollout


@dataclass(slots=True)
class GradeTally:
    """Collects over the groups of a step."""

    counts: Counter[str] = field(default_factory=Counter)
    rows: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    judge_numbers: dict[str, float] = field(default_factory=dict)

    def audit(self, findings: Sequence[HackFinding], *, honest: int, passed: int) -> None:
        """One group's findings; `passed` before and `honest` after the reset."""
        self.counts["hacks/groups_emptied"] += int(passed > 0 and honest == 0)
        self.counts["hacks/groups_became_mixed"] += int(passed == len(findings) and 0 < honest < passed)
        for finding in findings:
            for verdict in HackVerdict:
                self.rows[f"hacks/{verdict}_share"].append(float(finding.verdict is verdict))
            if finding.verdict in (HackVerdict.SUSPECTED, HackVerdict.CONFIRMED):
                self.counts.update(f"hacks/route/{route}" for route in set(finding.routes))

    def routed(self, passes: int, judged: int) -> bool:
        """Count a GAR group; True where it is to be judged (mixed, at least two passes)."""
        self.counts["gar/groups_total"] += 1
        if not 0 < passes < judged:
            self.counts["gar/skipped_uniform"] += 1
            return False
        self.counts["gar/routed"] += 1
        if passes == 1:
            self.counts["gar/skipped_single"] += 1
            return False
        self.counts["gar/attempted"] += 1
        return True

    def rubric(self, scores: Sequence[Scores]) -> None:
        """The scores of one GRS group's passes."""
        graded = [s for s in scores if s.solution is not None and s.behavior is not None]
        self.rows["grs/no_answer_rate"] += [float(item.solution is None) for item in scores]
        self.rows["grs/gate_zero_rate"] += [float(bool(item.gates)) for item in scores]
        solution = [s.solution for s in graded if s.solution is not None]
        behavior = [s.behavior for s in graded if s.behavior is not None]
        for name, values in (("solution", solution), ("behavior", behavior)):
            self.rows[f"grs/{name}_mean"] += values
            if values:
                self.rows[f"grs/{name}_std_within"].append(pstdev(values))
        products = [a * b for a, b in zip(solution, behavior, strict=True)]
        self.rows["grs/product_mean"] += products
        if products:
            self.rows["grs/product_spread"].append(max(products) - min(products))
        answers: dict[str, list[float]] = defaultdict(list)
        for item in scores:
            for name, yes in item.answers.items():
                if yes is not None:
                    answers[name].append(float(yes))
        for name, values in answers.items():
            self.rows[f"grs/criterion/{name}"] += values
            self.rows[f"grs/criterion_std/{name}"].append(pstdev(values))

    def ranking(
        self, found: Mapping[str, Quality] | None, rollouts: Mapping[str, Rollout], started: float
    ) -> None:
        """The outcome of one attempted GAR group."""
        self.rows["gar/grader_seconds"].append(time.monotonic() - started)
        self.counts["gar/judged" if found is not None else "gar/failed"] += 1
        for name, item in (found or {}).items():
            self.rows["gar/select_factor_mean"].append(item.factor)
            self.rows["_factor"].append(item.factor)
            self.rows["_length"].append(float(rollouts[name].generated_tokens))
            for tier in ("T1", "T2", "T3"):
                self.rows[f"gar/tier_share/{tier}"].append(float(item.tier == tier))

    def probes(self, pairs: int, disagree: int) -> None:
        """Pairs of passes that a judge read in two orders, and those it ranked apart."""
        self.counts["_pairs"] += pairs
        self.counts["_disagree"] += disagree

    def judge(self, judge: Judge) -> None:
        """What the judge cost and refused so far in the stage."""
        self.judge_numbers = {
            "judge/asked": float(judge.asked),
            "judge/seconds": judge.seconds,
            "judge/tokens": float(judge.tokens),
        }
        self.judge_numbers |= {
            f"judge/failures/{name.replace(' ', '_')}": float(number)
            for name, number in judge.failures.items()
        }

    def metrics(self) -> dict[str, float]:
        """All numbers; means of rows, sums of counts."""
        numbers = {name: float(value) for name, value in self.counts.items() if name[0] != "_"}
        numbers |= {name: fmean(values) for name, values in self.rows.items() if values and name[0] != "_"}
        if self.counts["_pairs"]:
            numbers["gar/probe_disagree_rate"] = self.counts["_disagree"] / self.counts["_pairs"]
        factors, lengths = self.rows["_factor"], self.rows["_length"]
        if len(set(factors)) > 1 and len(set(lengths)) > 1:
            numbers["gar/factor_length_correlation"] = correlation(factors, lengths)
        return numbers | self.judge_numbers


def redistribution_metrics(signal: Signal) -> dict[str, float]:
    """What GAR did to the advantages of a step's groups: scale, cap, deficit, and that groups sum to zero."""
    groups = [
        (record, finished)
        for record, finished in zip(signal.groups, signal.finished, strict=True)
        if record.method == "gar" and record.accepted
    ]
    acted = [record.statistics for record, _ in groups if record.statistics.get("fallback") is None]
    sums = [abs(math.fsum(item.rollout.advantage or 0.0 for item in finished)) for _, finished in groups]
    numbers: dict[str, list[float]] = {
        "gar/select_renorm_k_mean": [float(str(row["scale"])) for row in acted],
        "gar/select_renorm_capped_rate": [float(bool(row["capped"])) for row in acted],
        "gar/deficit_mean": [float(str(row["deficit"])) for row in acted],
        "gar/adv_group_sum_abs_mean": sums,
    }
    return {name: fmean(values) for name, values in numbers.items() if values}
