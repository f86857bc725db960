"""One new turn after a recorded history: sampled, written down, never carried out.

The sample stops at the end of the turn, before any tool runs: no box is opened and nothing is verified. In
the record the history's turns keep their spans; the loss mask is True on the new turn only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mimo.backends.base import Sampled, Sampler, SamplingParams
from mimo.rollouts.boundary import RolloutFailed, boundary
from mimo.rollouts.house import House
from mimo.rollouts.loop import MIN_TURN_TOKENS, Finished, derived_seed
from mimo.rollouts.prefixes import Prefix
from mimo.rollouts.token_log import TokenLog
from mimo.types import Context, Flag, Rollout, RolloutStatus, Seconds, Turn


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnPlan:
    """A turn to sample: `seed` is derived from the id, the step and the run's seed."""

    rollout_id: str
    prefix: Prefix
    step: int
    seed: int


def turn_plans(drawn: Sequence[Prefix], *, name: str, step: int, seed: int) -> list[TurnPlan]:
    """One plan a prefix; ids are `s<step>-<name><number>`."""
    ids = [f"s{step:06d}-{name}{number:05d}" for number in range(len(drawn))]
    return [
        TurnPlan(rollout_id=one, prefix=prefix, step=step, seed=derived_seed(seed, step, one))
        for one, prefix in zip(ids, drawn, strict=True)
    ]


async def sample_turns(
    plans: Sequence[TurnPlan],
    sampler: Sampler,
    house: House,
    *,
    turn_s: float,
    on_done: Callable[[], None],
) -> list[Finished]:
    """The finished turns, in the plans' order.

    Raises:
        EngineFailed: the engine is gone.
    """

    async def one(plan: TurnPlan) -> Finished:
        finished = await sample_turn(plan, sampler, house, turn_s=turn_s)
        on_done()
        return finished

    return list(await asyncio.gather(*(one(plan) for plan in plans)))


async def sample_turn(plan: TurnPlan, sampler: Sampler, house: House, *, turn_s: float) -> Finished:
    """One new turn; `truncated` when it ended by length, a failure is in `status` and `error`."""
    record = _blank(plan, house)
    room = house.sizes.context_tokens - len(plan.prefix.ids)
    if room < MIN_TURN_TOKENS:
        return Finished(rollout=replace(record, status=RolloutStatus.TRUNCATED), payload=None, changes=None)
    params = SamplingParams(
        temperature=house.sizes.temperature,
        top_p=house.sizes.top_p,
        max_tokens=min(house.sizes.turn_tokens, room),
        stop_token_ids=tuple(house.renderer.stop_token_ids),
        seed=plan.seed,
    )
    try:
        with boundary("sampler"):
            async with asyncio.timeout(turn_s):
                sampled = await sampler.generate(plan.prefix.ids, params, request_id=plan.rollout_id)
    except RolloutFailed as failure:
        failed = replace(record, status=failure.status, error=failure.error)
        return Finished(rollout=failed, payload=None, changes=None)
    return _written_down(record, plan.prefix, sampled, house)


def _blank(plan: TurnPlan, house: House) -> Rollout:
    source = plan.prefix.source
    return Rollout(
        rollout_id=plan.rollout_id,
        group_id=plan.rollout_id,
        task_id=source.task_id,
        domain=source.domain,
        harness=source.harness,
        policy=house.policy,
        step=plan.step,
        seed=plan.seed,
        status=RolloutStatus.ERROR,
    )


def _written_down(record: Rollout, prefix: Prefix, sampled: Sampled, house: House) -> Finished:
    log = TokenLog()
    log.given(prefix.ids)
    span = log.sampled(sampled)
    text = house.renderer.turn_text(sampled.token_ids)
    parsed = house.harness(record.harness).parse(text)
    turn = Turn(
        role="assistant",
        text=text,
        span=span,
        tool_calls=(parsed.call,) if parsed.call else (),
        weight_version=sampled.weight_version,
        finish_reason=sampled.finish_reason,
        flags=tuple(Flag(rule=rule, span=span) for rule in dict.fromkeys(m.rule for m in parsed.malformed)),
        seconds=sampled.seconds,
    )
    context = Context(context_id="0", parent=prefix.source.rollout_id, turns=(*prefix.turns, turn))
    cut = sampled.finish_reason == "length"
    finished = replace(
        record,
        status=RolloutStatus.TRUNCATED if cut else RolloutStatus.DONE,
        contexts=(context,),
        num_turns=1,
        prompt_tokens=len(prefix.ids),
        generated_tokens=len(sampled.token_ids),
        seconds=Seconds(sample=sampled.seconds),
    )
    return Finished(rollout=finished, payload=log.payload(), changes=None)
