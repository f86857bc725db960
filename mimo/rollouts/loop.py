"""One rollout: open a box, talk, freeze, judge the changes elsewhere, write it all down.

The policy samples through the engine and acts only inside its box. What the box holds at the end is judged
on a pristine copy in another box, whether the policy submitted it or ran out of turns.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from dataclasses import dataclass, replace

from mimo.backends.base import Sampled, Sampler, SamplingParams
from mimo.harnesses.base import Harness, Observation, ParsedTurn
from mimo.rollouts.boundary import RolloutFailed, boundary
from mimo.rollouts.dialogue import Dialogue
from mimo.rollouts.house import House
from mimo.rollouts.token_log import Payload
from mimo.types import (
    Flag,
    Role,
    Rollout,
    RolloutStatus,
    Seconds,
    Task,
    ToolResult,
    Turn,
)
from sandbox.base import Changes, Sandbox

MIN_TURN_TOKENS = 8
"""With less room than this left in the context, the rollout ends as truncated."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """What to roll out: the k-th attempt at `task` in `step`."""

    rollout_id: str
    group_id: str
    task: Task
    harness: str
    step: int
    seed: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """A rollout with its tokens and changes; `payload` is None when nothing was sampled.

    `payload` are the tokens of the first context, `branches` those of the contexts that went on from it after
    old observations were dropped.
    """

    rollout: Rollout
    payload: Payload | None
    changes: Changes | None
    branches: tuple[Payload, ...] = ()

    @property
    def payloads(self) -> tuple[Payload, ...]:
        """The tokens of every context, in the record's order."""
        return () if self.payload is None else (self.payload, *self.branches)


class NeedsSight(Exception):
    """The task shows an image, and nobody would see it: the rollout is refused, not answered blindly."""


def derived_seed(*parts: object) -> int:
    """A 31-bit seed from what identifies a thing, the same in every process."""
    text = "\x1f".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "big") >> 1


async def run_rollout(attempt: Attempt, sampler: Sampler, house: House) -> Finished:
    """The finished rollout; a failure is in its `status` and `error`.

    Raises:
        EngineFailed: the engine is gone; the stage ends and resumes.
    """
    dialogue = Dialogue()
    record = _blank(attempt, house)
    changes: Changes | None = None
    try:
        with boundary("rollout"):
            status, changes = await _act_out(attempt, sampler, house, dialogue)
        record = replace(record, status=status)
        with boundary("verifier"):
            started = time.monotonic()
            verdict = await house.verify(attempt.task, changes)
            dialogue.verify_s = time.monotonic() - started
        record = replace(record, verdict=verdict, reward=float(verdict.passed and not verdict.tampered))
    except RolloutFailed as failure:
        record = replace(record, status=failure.status, error=failure.error)
    payloads = dialogue.payloads()
    return Finished(
        rollout=_filled(record, dialogue),
        payload=payloads[0] if payloads else None,
        changes=changes,
        branches=payloads[1:],
    )


def _blank(attempt: Attempt, house: House) -> Rollout:
    return Rollout(
        rollout_id=attempt.rollout_id,
        group_id=attempt.group_id,
        task_id=attempt.task.task_id,
        domain=attempt.task.domain,
        harness=attempt.harness,
        policy=house.policy,
        step=attempt.step,
        seed=attempt.seed,
        status=RolloutStatus.ERROR,
    )


def _filled(record: Rollout, dialogue: Dialogue) -> Rollout:
    turns = dialogue.assistant_turns()
    sampled = sum(turn.span[1] - turn.span[0] for turn in turns)
    return replace(
        record,
        contexts=dialogue.contexts(),
        num_turns=len(turns),
        prompt_tokens=dialogue.tokens() - sampled,
        generated_tokens=sampled,
        seconds=Seconds(sample=dialogue.sample_s, tool=dialogue.tool_s, verify=dialogue.verify_s),
    )


async def _act_out(
    attempt: Attempt, sampler: Sampler, house: House, dialogue: Dialogue
) -> tuple[RolloutStatus, Changes]:
    """Talk until submitted or out of room; then the box's changes, taken after its processes are dead."""
    harness = house.harness(attempt.harness)
    async with house.box(attempt.task) as box:
        _open_dialogue(attempt.task, harness, house, dialogue)
        async with asyncio.timeout(attempt.task.environment.limits.wall_s):
            status = await _talk(attempt, sampler, house, harness, box, dialogue)
        with boundary("sandbox"):
            await house.in_thread(box.freeze)
            return status, await house.in_thread(box.changes)


def _open_dialogue(task: Task, harness: Harness, house: House, dialogue: Dialogue) -> None:
    messages = harness.opening(task)
    if any(message.images for message in messages) and not house.sees:
        raise NeedsSight(f"task {task.task_id} ({task.family}) shows an image, and the policy does not see")
    span = dialogue.log.given(house.renderer.opening_ids(messages))
    for number, message in enumerate(messages):
        last = number == len(messages) - 1
        turn_span = (span[0], span[1]) if last else (span[0], span[0])
        role: Role = "system" if message.role == "system" else "user"
        dialogue.note(Turn(role=role, text=message.text, span=turn_span, images=message.images))


async def _talk(
    attempt: Attempt, sampler: Sampler, house: House, harness: Harness, box: Sandbox, dialogue: Dialogue
) -> RolloutStatus:
    for number in range(harness.max_turns):
        dialogue.manage(harness.context, house.renderer, limit=house.sizes.context_tokens)
        room = house.sizes.context_tokens - len(dialogue.log)
        if room < MIN_TURN_TOKENS:
            return RolloutStatus.TRUNCATED
        sampled = await _sample(attempt, sampler, house, dialogue, number, room)
        parsed = _note_turn(harness, house, dialogue, sampled)
        observation = await _observe(attempt, house, harness, box, dialogue, parsed)
        if observation.done:
            return RolloutStatus.DONE
        if number + 1 < harness.max_turns:
            _note_observation(house, dialogue, observation, sampled)
    return RolloutStatus.TRUNCATED


async def _sample(
    attempt: Attempt, sampler: Sampler, house: House, dialogue: Dialogue, number: int, room: int
) -> Sampled:
    sizes = house.sizes
    params = SamplingParams(
        temperature=sizes.temperature,
        top_p=sizes.top_p,
        max_tokens=min(sizes.turn_tokens, room),
        stop_token_ids=tuple(house.renderer.stop_token_ids),
        seed=derived_seed(attempt.seed, number),
    )
    started = time.monotonic()
    with boundary("sampler"):
        async with asyncio.timeout(attempt.task.environment.limits.turn_s):
            sampled = await sampler.generate(
                dialogue.log.ids, params, request_id=f"{attempt.rollout_id}-{number}"
            )
    dialogue.sample_s += time.monotonic() - started
    return sampled


def _note_turn(harness: Harness, house: House, dialogue: Dialogue, sampled: Sampled) -> ParsedTurn:
    """Append the sampled turn; a fault of its markup flags the whole turn (METHOD 6.4)."""
    text = house.renderer.turn_text(sampled.token_ids)
    parsed = harness.parse(text)
    span = dialogue.log.sampled(sampled)
    dialogue.note(
        Turn(
            role="assistant",
            text=text,
            span=span,
            tool_calls=(parsed.call,) if parsed.call else (),
            weight_version=sampled.weight_version,
            finish_reason=sampled.finish_reason,
            flags=tuple(
                Flag(rule=rule, span=span) for rule in dict.fromkeys(m.rule for m in parsed.malformed)
            ),
            seconds=sampled.seconds,
        )
    )
    return parsed


async def _observe(
    attempt: Attempt, house: House, harness: Harness, box: Sandbox, dialogue: Dialogue, parsed: ParsedTurn
) -> Observation:
    started = time.monotonic()
    with boundary("harness"):
        observation = await house.in_thread(harness.act, parsed.call, box, attempt.task)
    dialogue.tool_s += time.monotonic() - started
    return observation


def _note_observation(house: House, dialogue: Dialogue, observation: Observation, sampled: Sampled) -> None:
    """Append what the tool gave back, cut to the recipe's number of tokens."""
    after_stop = house.renderer.ends_turn(sampled.token_ids)
    text, ids, cut = _fit(house, observation.text, after_stop)
    span = dialogue.log.given(ids)
    result = ToolResult(exit_code=observation.exit_code, truncated=observation.truncated or cut)
    dialogue.note(Turn(role="tool", text=text, span=span, tool_result=result), after_stop=after_stop)


def _fit(house: House, text: str, after_stop: bool) -> tuple[str, list[int], bool]:
    limit = house.sizes.observation_tokens
    ids = house.renderer.observation_ids(text, after_stop=after_stop)
    cut = False
    while len(ids) > limit and len(text) > 1:
        text = text[: max(1, int(len(text) * limit / len(ids) * 0.9))]
        ids = house.renderer.observation_ids(text + "\n[cut]", after_stop=after_stop)
        cut = True
    return (text + "\n[cut]" if cut else text), ids, cut
