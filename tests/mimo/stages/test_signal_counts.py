"""What a step caps, masks or falls back on reaches the counts of the run's summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mimo.rollouts.loop import Finished
from mimo.rollouts.signal import SignalRules, learning_signal
from mimo.stages.rl_loop import signal_rules
from mimo.stages.signal_counts import (
    count_clipped,
    count_judge,
    count_masked_tokens,
    count_rollouts,
    count_signal,
    count_unjudged,
)
from mimo.types import RolloutStatus, Routing, ToolResult, Turn
from sandbox.base import Changes
from tests.mimo.rollouts.made import made_group, made_rollout
from tests.mimo.stages.graded import NotedContext, smoke_recipe

RULES = signal_rules(smoke_recipe())


def _counted(rows: Sequence[Finished], method: Routing, rules: SignalRules = RULES) -> dict[str, int]:
    ctx = NotedContext(recipe=smoke_recipe(), inputs={}, out=Path("/nonexistent"))
    count_signal(ctx, 1, learning_signal([made_group(rows, method)], rules), rules)
    return dict(ctx.counts)


def test_gar_without_factors_and_gar_at_its_cap() -> None:
    ungraded = [made_rollout(0, True), made_rollout(1, True), made_rollout(2, False)]
    assert _counted(ungraded, "gar") == {"GAR group kept its own advantages": 1}
    poor = [made_rollout(0, True, quality=0.2), made_rollout(1, True, quality=0.2), made_rollout(2, False)]
    assert _counted(poor, "gar") == {"GAR cap bound": 1}
    good = [made_rollout(0, True, quality=1.0), made_rollout(1, True, quality=0.9), made_rollout(2, False)]
    assert _counted(good, "gar") == {}


def test_grs_scores_under_the_floor_are_counted_one_by_one() -> None:
    rows = [
        made_rollout(0, True, scores=(0.0, 0.05)),
        made_rollout(1, True, scores=(0.9, 0.0)),
        made_rollout(2, True, scores=(0.9, 0.9)),
        made_rollout(3, False),
    ]
    assert _counted(rows, "grs") == {"GRS score raised to grading.grs_floor": 3}


def test_clamps_of_the_token_penalty_and_a_side_that_cannot_take_the_mass() -> None:
    mostly = [made_rollout(0, True, flag=(0, 3)), made_rollout(1, False, flag=(0, 3))]
    assert _counted(mostly, "plain") == {
        "token penalty clamped (alpha)": 1,
        "token penalty clamped (beta)": 1,
    }
    wholly = [made_rollout(0, True, flag=(0, 4)), made_rollout(1, False)]
    assert _counted(wholly, "plain") == {"token penalty without an absorber (positive)": 1}
    assert _counted(wholly, "plain", replace(RULES, token_penalty=None)) == {}


def test_truncated_rollouts_masked_and_clipped_tokens() -> None:
    ctx = NotedContext(recipe=smoke_recipe(), inputs={}, out=Path("/nonexistent"))
    cut = made_rollout(0, False)
    cut = replace(cut, rollout=replace(cut.rollout, status=RolloutStatus.TRUNCATED))
    count_rollouts(ctx, 1, [cut, made_rollout(1, True), _with_cut_output()])
    shares = {"mask/positive_low": 0.25, "mask/negative_high": 0.5}
    count_masked_tokens(ctx, 1, {**shares, "tokens/positive": 8.0, "tokens/negative": 4.0})
    count_masked_tokens(ctx, 2, {"tokens/positive": 8.0})
    count_clipped(ctx, 1, {"gap_clipped_share/student/rl-mixed": 0.1, "tokens/student/rl-mixed": 30.0})
    assert ctx.counts == {
        "rollout truncated": 1,
        "tool output cut": 1,
        "token masked by the importance bounds": 4,
        "token gap clipped to mopd2.clip": 3,
    }


def test_cut_turns_dropped_observations_and_capped_changes() -> None:
    ctx = NotedContext(recipe=smoke_recipe(), inputs={}, out=Path("/nonexistent"))
    made = made_rollout(0, True)
    context = made.rollout.contexts[0]
    cut = [replace(turn, finish_reason="length") for turn in context.turns if turn.role == "assistant"]
    assert cut
    long = replace(made.rollout, contexts=(replace(context, turns=tuple(cut)),))
    assert made.payload is not None
    branched = replace(made, branches=(made.payload,))
    capped = replace(made, changes=Changes(files=(), capped=True))
    count_rollouts(ctx, 1, [replace(made, rollout=long), branched, capped])
    assert ctx.counts == {
        "turn cut at its token limit": len(cut),
        "context with old observations dropped": 1,
        "changes of a rollout cut off": 1,
    }


def test_rollouts_without_a_verdict_and_a_judge_that_fails_again() -> None:
    ctx = NotedContext(recipe=smoke_recipe(), inputs={}, out=Path("/nonexistent"))
    lost = made_rollout(0, False)
    lost = replace(lost, rollout=replace(lost.rollout, verdict=None))
    count_unjudged(ctx, [lost, made_rollout(1, True)], "step 7")
    failures, told = Counter({"malformed": 2, "no answer": 1}), Counter[str]()
    count_judge(ctx, failures, told)
    count_judge(ctx, failures, told)
    failures["malformed"] += 1
    count_judge(ctx, failures, told)
    assert ctx.counts == {
        "rollout without a verdict in an evaluation": 1,
        "judge's answer not usable": 3,
        "judge gave no answer": 1,
    }


def _with_cut_output() -> Finished:
    made = made_rollout(2, True)
    context = made.rollout.contexts[0]
    cut = ToolResult(exit_code=0, truncated=True)
    turns = (*context.turns, Turn(role="tool", text="…", span=(7, 7), tool_result=cut))
    return replace(made, rollout=replace(made.rollout, contexts=(replace(context, turns=turns),)))
