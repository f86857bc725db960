"""What a training step left out, capped or fell back on, counted for the run's summary."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from mimo.hacks.audit import history_length
from mimo.rollouts.loop import Finished
from mimo.rollouts.signal import Signal, SignalRules
from mimo.stages.base import StageContext
from mimo.types import RolloutStatus

_SIDES = (("positive", "pos", "alpha"), ("negative", "neg", "beta"))


def count_signal(ctx: StageContext, step: int, signal: Signal, rules: SignalRules) -> None:
    """GAR groups that kept their own advantages or met the cap; GRS scores raised; what bound the penalty."""
    for group in signal.groups:
        if not group.accepted:
            continue
        fallback = group.statistics.get("fallback")
        if fallback is not None:
            ctx.count("GAR group kept its own advantages", why=str(fallback))
        if group.statistics.get("capped"):
            ctx.count("GAR cap bound", why=f"scale {group.statistics['scale']} over grading.gar_cap")
    raised = sum(_below(item, rules.grs_floor) for row in signal.finished for item in row)
    if raised:
        ctx.count("GRS score raised to grading.grs_floor", raised, why=f"step {step}")
    _count_penalty(ctx, step, signal.metrics)


def _below(item: Finished, floor: float) -> int:
    """Scores of an honest pass below the floor, 0 to 2."""
    rollout = item.rollout
    passed = rollout.verdict is not None and rollout.verdict.passed and bool(rollout.reward)
    if rollout.grades is None or not passed:
        return 0
    scores = (rollout.grades.solution, rollout.grades.behavior)
    return sum(score is not None and score < floor for score in scores)


def _count_penalty(ctx: StageContext, step: int, metrics: Mapping[str, float]) -> None:
    """A clamp of the token penalty, or a side without unflagged tokens to take the mass."""
    for side, short, scale in _SIDES:
        value = metrics.get(f"token_penalty/{scale}")
        if value is None:
            continue
        free = metrics[f"token_penalty/{scale}_free"]
        before, after = (metrics[f"token_penalty/{short}_{when}"] for when in ("before", "after"))
        if not math.isclose(value, free, rel_tol=1e-9):
            ctx.count(f"token penalty clamped ({scale})", why=f"step {step}: {free:.4g} to {value:.4g}")
        elif not math.isclose(before, after, rel_tol=1e-6, abs_tol=1e-12):
            why = f"step {step}: no unflagged {side} token takes the mass"
            ctx.count(f"token penalty without an absorber ({side})", why=why)


def count_rollouts(ctx: StageContext, step: int, finished: Sequence[Finished]) -> None:
    """What bounds did to rollouts: ended for want of room or turns, turns and tool outputs cut, old
    observations dropped, changes beyond what is carried out of a box.
    """
    turns = [
        turn
        for item in finished
        for context in item.rollout.contexts
        for turn in context.turns[history_length(item.rollout) :]
    ]
    cut_outputs = sum(turn.tool_result is not None and turn.tool_result.truncated for turn in turns)
    for what, number, why in (
        (
            "rollout truncated",
            sum(item.rollout.status is RolloutStatus.TRUNCATED for item in finished),
            "no room or no turn left",
        ),
        (
            "turn cut at its token limit",
            sum(turn.finish_reason == "length" for turn in turns),
            "sampling.turn_tokens, or the room left in the context",
        ),
        ("tool output cut", cut_outputs, "harness.observation_tokens or output_bytes"),
        (
            "context with old observations dropped",
            sum(len(item.branches) for item in finished),
            "the harness keeps the newest only",
        ),
        (
            "changes of a rollout cut off",
            sum(item.changes is not None and item.changes.capped for item in finished),
            "more or larger files than are carried out of a box: it fails",
        ),
    ):
        if number:
            ctx.count(what, number, why=f"step {step}: {why}")


def count_unjudged(ctx: StageContext, finished: Sequence[Finished], where: str) -> None:
    """Rollouts that a rate or a rubric leaves out, for want of a verdict."""
    if number := sum(item.rollout.verdict is None for item in finished):
        first = next(item.rollout for item in finished if item.rollout.verdict is None)
        error = "" if first.error is None else f"; the first: {first.error.type} in {first.error.where}"
        ctx.count("rollout without a verdict in an evaluation", number, why=f"{where}{error}")


def count_judge(ctx: StageContext, failures: Mapping[str, int], told: Counter[str]) -> None:
    """A judge's failures since those in `told`, which then has them all: answers that could not be used (it
    was asked again), and questions that stay without an answer.
    """
    for kind, number in failures.items():
        if (new := number - told[kind]) > 0:
            told[kind] = number
            lost = kind == "no answer"
            ctx.count(
                "judge gave no answer" if lost else "judge's answer not usable",
                new,
                why="after all its tries" if lost else kind,
            )


def count_masked_tokens(ctx: StageContext, step: int, metrics: Mapping[str, float]) -> None:
    """Trained tokens whose importance ratio lay outside its interval; `metrics` are the trainer's."""
    masked = sum(
        round(metrics.get(f"mask/{side}_{end}", 0.0) * metrics.get(f"tokens/{side}", 0.0))
        for side, _, _ in _SIDES
        for end in ("low", "high")
    )
    if masked:
        ctx.count("token masked by the importance bounds", masked, why=f"step {step}")


def count_clipped(ctx: StageContext, step: int, metrics: Mapping[str, float]) -> None:
    """Tokens of mopd2 whose gap to the teacher was cut to `mopd2.clip`."""
    prefix = "gap_clipped_share/"
    clipped = sum(
        round(share * metrics[f"tokens/{name.removeprefix(prefix)}"])
        for name, share in metrics.items()
        if name.startswith(prefix)
    )
    if clipped:
        ctx.count("token gap clipped to mopd2.clip", clipped, why=f"step {step}")
