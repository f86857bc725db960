"""The numbers of one rl-mixed step, by METHOD 14 (names and meanings: docs/metrics.md).

Those of the learning signal are over the accepted groups that train; those made here are over everything that
was sampled, rejected groups included.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from statistics import fmean, pstdev

from mimo.algo.outcomes import REASONS
from mimo.harnesses.markup import RULES
from mimo.rollouts.loop import Finished
from mimo.rollouts.signal import Signal
from mimo.stages.collect import Collected
from mimo.stages.grade_metrics import redistribution_metrics
from mimo.types import RolloutStatus


def step_metrics(collected: Collected, signal: Signal | None, *, version: int) -> dict[str, float]:
    """Everything but times; `version` is that of the weights the step trains."""
    every = list(_every(collected))
    numbers = _rollouts(every) | _groups(collected) | _turns(every) | _staleness(every, version)
    if signal is None:
        return numbers
    return signal.metrics | redistribution_metrics(signal) | numbers | _by_domain(collected, signal)


def time_metrics(collected: Collected, *, sampled_s: float, step_s: float) -> dict[str, float]:
    """Wall seconds of sampling and of the step, and the rollouts' own seconds added up."""
    seconds = [item.rollout.seconds for item in _every(collected)]
    return {
        "time/rollout_s": sampled_s,
        "time/rollout_sample_s": sum(item.sample for item in seconds),
        "time/rollout_tool_s": sum(item.tool for item in seconds),
        "time/rollout_verify_s": sum(item.verify for item in seconds),
        "time/step_s": step_s,
    }


def _every(collected: Collected) -> Iterator[Finished]:
    for group in collected.accepted:
        yield from group.finished
    for _, row in collected.rejected:
        yield from row


def _rollouts(every: Sequence[Finished]) -> dict[str, float]:
    judged = [item.rollout.verdict.passed for item in every if item.rollout.verdict is not None]
    status = Counter(item.rollout.status for item in every)
    return {
        "rollouts/total": float(len(every)),
        "rollouts/pass_rate_all": sum(judged) / max(1, len(judged)),
        "rollouts/truncated_rate": status[RolloutStatus.TRUNCATED] / max(1, len(every)),
        "tokens/generated": float(sum(item.rollout.generated_tokens for item in every)),
        "tokens/prompt": float(sum(item.rollout.prompt_tokens for item in every)),
    }


def _groups(collected: Collected) -> dict[str, float]:
    """What the filter did: by reason, and the shares that are always or never solved."""
    sampled = len(collected.accepted) + len(collected.rejected)
    reasons = Counter(record.reason for record, _ in collected.rejected)
    numbers = {
        "groups/sampled": float(sampled),
        "groups/rejected": float(len(collected.rejected)),
        "groups/wanted": float(sum(collected.wanted.values())),
        "groups/rounds": float(collected.rounds),
        "groups/accept_rate": len(collected.accepted) / max(1, sampled),
        "groups/zero_share": reasons["no rollout passes"] / max(1, sampled),
        "groups/one_share": reasons["every rollout passes"] / max(1, sampled),
    }
    dropped = {reason: reasons[reason] for reason in REASONS if reason is not None}
    return numbers | {
        f"groups/dropped/{reason.replace(' ', '_')}": float(number) for reason, number in dropped.items()
    }


def _turns(every: Sequence[Finished]) -> dict[str, float]:
    """Turns, and malformed ones by the rule of the harness's parser, per thousand turns."""
    turns = [
        turn for item in every for c in item.rollout.contexts for turn in c.turns if turn.role == "assistant"
    ]
    rules = Counter(rule for turn in turns for rule in {flag.rule for flag in turn.flags})
    numbers = {
        "turns/malformed": float(sum(bool(turn.flags) for turn in turns)),
        "turns/per_rollout": len(turns) / max(1, len(every)),
    }
    kinds = dict.fromkeys(RULES, 0) | rules
    return numbers | {
        f"turns/malformed_per_1k/{rule}": 1000 * number / max(1, len(turns)) for rule, number in kinds.items()
    }


def _staleness(every: Sequence[Finished], version: int) -> dict[str, float]:
    """Updates between the weights that sampled a token and those that it trains; mean over trained tokens."""
    total = tokens = 0
    for item in every:
        if item.payload is not None:
            sampled = item.payload.weight_version[item.payload.loss_mask]
            tokens += len(sampled)
            total += int((version - sampled.astype("int64")).sum())
    return {"tokens/staleness_mean": total / tokens} if tokens else {}


def _by_domain(collected: Collected, signal: Signal) -> dict[str, float]:
    """Per domain: accept rate of its groups, mean and standard deviation of the advantages that train."""
    accepted: dict[str, list[float]] = defaultdict(list)
    advantages: dict[str, list[float]] = defaultdict(list)
    for finished in signal.finished:
        for item in finished:
            if item.rollout.advantage is not None:
                advantages[item.rollout.domain].append(item.rollout.advantage)
    rows: list[tuple[Sequence[Finished], bool]] = [(group.finished, True) for group in collected.accepted]
    rows += [(row, False) for _, row in collected.rejected]
    for row, taken in rows:
        if row:
            accepted[row[0].rollout.domain].append(float(taken))
    numbers = {f"domains/{name}/accept_rate": fmean(values) for name, values in accepted.items()}
    for name, values in advantages.items():
        numbers[f"domains/{name}/advantage_mean"] = fmean(values)
        numbers[f"domains/{name}/advantage_std"] = pstdev(values)
    return numbers
